"""The event stream: how an answer in pieces is framed. Encoding only; clients decode.

    total length u32 | header block's length u32 | CRC32 of these 8 bytes | headers | payload | CRC32 of all before it

All numbers are big-endian. A header is its name's length (u8), the name, the type of its value (7 = text), the value's
length (u16) and the value. There is no message for the end: the end of the HTTP body is the end, so that a stream which
breaks must say so in an exception message before the body ends. Source: contract, data plane 1.4.
"""

import struct
from collections.abc import Iterator
from zlib import crc32

from controlplane.wire.serialize import dump

CONTENT_TYPE = "application/vnd.amazon.eventstream"

PART_BYTES = 1024 * 1024
"""The largest payload of one message; clients refuse messages of more than 16 to 24 MiB."""

_TEXT = 7
_OVERHEAD = 16

Headers = tuple[tuple[str, str], ...]


def message(headers: Headers, payload: bytes) -> bytes:
    """One message. Names hold at most 255 bytes, values 65,535."""
    return _framed(_block(headers), payload)


def parts(piece: bytes) -> Iterator[bytes]:
    """The messages that carry a piece of the answer's body, as it is."""
    for start in range(0, len(piece), PART_BYTES):
        yield _framed(_PART, piece[start : start + PART_BYTES])


def failure(kind: str, members: dict[str, object]) -> bytes:
    """The message that tells of a failure after the answer's beginning: an exception shape's name and its members."""
    headers = ((":message-type", "exception"), (":exception-type", kind), (":content-type", "application/json"))
    return message(headers, dump(members))


def _block(headers: Headers) -> bytes:
    return b"".join(_header(name.encode(), value.encode()) for name, value in headers)


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(f">B{len(name)}sBH", len(name), name, _TEXT, len(value)) + value


def _framed(block: bytes, payload: bytes) -> bytes:
    lengths = struct.pack(">II", _OVERHEAD + len(block) + len(payload), len(block))
    head = b"".join([lengths, struct.pack(">I", crc32(lengths)), block])
    return b"".join([head, payload, struct.pack(">I", crc32(payload, crc32(head)))])


_PART = _block(
    (
        (":message-type", "event"),
        (":event-type", "PayloadPart"),
        (":content-type", "application/octet-stream"),
    )
)
"""The headers of every piece."""
