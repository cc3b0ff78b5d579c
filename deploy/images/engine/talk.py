"""HTTP/1.1 as far as the engine needs it."""

import asyncio
import json
from dataclasses import dataclass

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter

BODY_LIMIT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Request:
    """One request, read whole; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


async def read_request(reader: Reader, writer: Writer) -> Request | None:
    """The next request of a connection, None when the peer is done; raises ValueError for what is no request."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    method, target, _ = lines[0].split(" ", 2)
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= BODY_LIMIT_BYTES or "transfer-encoding" in headers:
        raise ValueError("bodies come with a length, and not without end")
    return Request(method, target.partition("?")[0], headers, await reader.readexactly(length))


def head(status: int, content_type: str, length: int | None) -> bytes:
    """A response head; without a length the body is chunked."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n{framing}\r\n\r\n".encode("latin-1")


def whole(writer: Writer, body: bytes, content_type: str, status: int = 200) -> None:
    """An answer in one piece."""
    writer.write(head(status, content_type, len(body)) + body)


def whole_json(writer: Writer, answer: object, status: int = 200) -> None:
    """An answer in one piece, as JSON."""
    whole(writer, json.dumps(answer).encode(), "application/json", status)


def chunk(data: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)
