"""Values, and columns of them, as PostgreSQL reads them fastest: in binary, made without looking at any twice. Pure.

An array of n values is five integers (dimensions, whether it has nulls, the elements' type, n, the first index) and then
for each value its length and its bytes, all in network order. A column that has the same value throughout, as most have
of requests that one client sends, is made of one. Source: PostgreSQL's `array_recv` and the types' own
`..._recv` functions. psycopg's general dumpers take five times as long, most of it to find out what is known here.
"""

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

UUID_OID, VARCHAR_OID, TIMESTAMPTZ_OID, INT4_OID, JSONB_OID, BYTEA_OID = 2950, 1043, 1184, 23, 3802, 17

_HEAD = struct.Struct(">iiiii")
_LENGTH = struct.Struct(">i").pack
_LONG = struct.Struct(">q").pack
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_JSONB_VERSION = b"\1"

T = TypeVar("T")


def uuid(value: UUID) -> bytes:
    """As uuid."""
    return value.bytes


def written_uuid(value: str) -> bytes:
    """As uuid, of one that is written out; raises ValueError for what is none."""
    return bytes.fromhex(value.replace("-", ""))


def text(value: str) -> bytes:
    """As text or varchar; one with NUL is refused by the server."""
    return value.encode()


def moment(value: datetime) -> bytes:
    """As timestamptz, of a moment with a zone: microseconds since 2000."""
    return _LONG((value - _EPOCH) // _MICROSECOND)


def long(value: int) -> bytes:
    """As bigint."""
    return _LONG(value)


def integer(value: int) -> bytes:
    """As int4."""
    return _LENGTH(value)


def document(value: str) -> bytes:
    """As jsonb, of a JSON text."""
    return _JSONB_VERSION + value.encode()


def blob(value: bytes) -> bytes:
    """As bytea."""
    return value


def uuids(values: Sequence[UUID]) -> bytes:
    """As uuid[]."""
    return _array(UUID_OID, uuid, values)


def written_uuids(values: Sequence[str]) -> bytes:
    """As uuid[], of UUIDs that are written out."""
    return _array(UUID_OID, written_uuid, values)


def texts(values: Sequence[str]) -> bytes:
    """As varchar[]; a text with NUL is refused by the server."""
    return _array(VARCHAR_OID, text, values)


def times(values: Sequence[datetime]) -> bytes:
    """As timestamptz[]."""
    return _array(TIMESTAMPTZ_OID, moment, values)


def integers(values: Sequence[int]) -> bytes:
    """As int4[]."""
    return _array(INT4_OID, integer, values)


def documents(values: Sequence[str]) -> bytes:
    """As jsonb[], of JSON texts."""
    return _array(JSONB_OID, document, values)


def blobs(values: Sequence[bytes]) -> bytes:
    """As bytea[]."""
    return _array(BYTEA_OID, blob, values)


def _array(oid: int, pack: Callable[[T], bytes], values: Sequence[T]) -> bytes:
    head = _HEAD.pack(1, 0, oid, len(values), 1)
    if len(values) > 1 and values.count(values[0]) == len(values):
        value = pack(values[0])
        return head + (_LENGTH(len(value)) + value) * len(values)
    parts = [head]
    for value in map(pack, values):
        parts += (_LENGTH(len(value)), value)
    return b"".join(parts)
