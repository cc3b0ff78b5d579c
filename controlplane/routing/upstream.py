"""The HTTP/1.1 client that carries calls to instances: an asyncio protocol on httptools, with pooled connections.

One connection serves one call at a time. A response body is handed on as it arrives; when its reader is slow the socket
is not read further, so an endless stream costs bounded memory. Redirects are not followed. A call is never sent twice: a
pooled connection idle for longer than IDLE_SECONDS is not used again, since servers close theirs after a few seconds
and a request sent into that moment would be lost with nobody able to tell whether it ran.

    UpstreamError
      ConnectFailed     nothing was sent: another instance may be tried
      TimedOut          no answer in time
      BrokenResponse    the answer broke off, lied about its length, or was no HTTP
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httptools

from controlplane.core import clock

IDLE_SECONDS = 2.0
HIGH_WATER_BYTES = 256 * 1024
HEADERS_LIMIT_BYTES = 64 * 1024

Headers = list[tuple[bytes, bytes]]


class UpstreamError(Exception):
    """A call that got no proper answer."""


class ConnectFailed(UpstreamError):
    """No connection was made and nothing was sent."""


class TimedOut(UpstreamError):
    """No answer within the time allowed."""


class BrokenResponse(UpstreamError):
    """The answer broke off or was not HTTP."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds to connect, and until the head of the answer is there."""

    connect: float = 2.0
    response: float = 60.0


@dataclass
class _Incoming:
    """The answer that a connection is receiving."""

    is_head_request: bool
    status: int = 0
    headers: Headers = field(default_factory=list)
    header_bytes: int = 0
    head_bytes: int = 0
    chunks: deque[bytes] = field(default_factory=deque)
    buffered: int = 0
    head_seen: bool = False
    complete: bool = False
    error: UpstreamError | None = None


class _Connection(asyncio.Protocol):
    """One socket; parses what arrives and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self._ended_well = False
        self._incoming: _Incoming | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    @property
    def may_be_kept(self) -> bool:
        """Whether another call may follow: the answer is complete and its reader did not leave the socket paused."""
        return self._ended_well and not self._is_paused and not self.is_closing

    def close(self) -> None:
        self._transport.abort()

    def begin(self, *, is_head_request: bool) -> None:
        """Expect the answer to the request that is about to be written."""
        self._parser = httptools.HttpResponseParser(self)
        self._incoming = _Incoming(is_head_request)
        self._ended_well = False

    async def write(self, data: bytes) -> None:
        self._transport.write(data)
        if not self._can_write.is_set():
            await self._can_write.wait()

    async def head(self) -> _Incoming:
        """The answer once its head is there."""
        incoming = self._expected()
        while not incoming.head_seen:
            if incoming.error:
                raise incoming.error
            await self._wait()
        return incoming

    async def next_chunk(self) -> bytes:
        """The next piece of the body, empty at its end."""
        incoming = self._expected()
        while not incoming.chunks:
            if incoming.complete:
                return b""
            if incoming.error:
                raise incoming.error
            await self._wait()
        chunk = incoming.chunks.popleft()
        incoming.buffered -= len(chunk)
        if self._is_paused and incoming.buffered < HIGH_WATER_BYTES // 2:
            self._is_paused = False
            self._transport.resume_reading()
        return chunk

    def _expected(self) -> _Incoming:
        if self._incoming is None:
            raise AssertionError("no request was sent on this connection")
        return self._incoming

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        incoming = self._incoming
        if incoming is None or incoming.complete:
            self.close()  # nobody asked: whatever this is, the connection cannot be trusted
            return
        if not incoming.head_seen:
            incoming.head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(BrokenResponse(f"the answer is not HTTP: {error}"))
        if not incoming.head_seen and incoming.head_bytes > HEADERS_LIMIT_BYTES:
            self._fail(_too_large_headers())  # the parser hands a header on once it is whole, which may be never

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._can_write.set()
        incoming = self._incoming
        if incoming is None or incoming.complete or incoming.error:
            return
        if incoming.head_seen and self._ends_with_connection(incoming):
            incoming.complete = True
            self._wake()
            return
        self._fail(BrokenResponse("the connection was closed before the answer was complete"))

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # What httptools calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        incoming = self._expected()
        incoming.header_bytes += len(name) + len(value)
        if incoming.header_bytes > HEADERS_LIMIT_BYTES:
            self._fail(_too_large_headers())
            raise _too_large_headers()  # ends the parsing
        incoming.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        incoming = self._expected()
        incoming.status = self._parser.get_status_code()
        if incoming.status < 200:
            return
        incoming.head_seen = True
        if incoming.is_head_request:
            incoming.complete = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        incoming = self._expected()
        incoming.chunks.append(body)
        incoming.buffered += len(body)
        if incoming.buffered > HIGH_WATER_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        incoming = self._expected()
        if incoming.status < 200:  # an interim answer: the real one follows
            incoming.headers.clear()
            return
        incoming.complete = True
        self._ended_well = self._parser.should_keep_alive() and not incoming.is_head_request
        self._wake()

    def _ends_with_connection(self, incoming: _Incoming) -> bool:
        """Whether the body has neither a length nor chunks, so that the end of the connection is its end."""
        return not any(name in (b"content-length", b"transfer-encoding") for name, _ in incoming.headers)

    def _fail(self, error: UpstreamError) -> None:
        incoming = self._expected()
        incoming.error = incoming.error or error
        self.close()
        self._wake()


def _too_large_headers() -> BrokenResponse:
    return BrokenResponse(f"the answer's headers are larger than {HEADERS_LIMIT_BYTES} bytes")


class UpstreamResponse:
    """An answer whose head is there and whose body is read by whoever holds it; close it in any case."""

    def __init__(self, client: "UpstreamClient", address: str, connection: _Connection, incoming: _Incoming) -> None:
        self.status = incoming.status
        self.headers = incoming.headers
        self._client = client
        self._address = address
        self._connection: _Connection | None = connection

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header (lower-case name)."""
        return next((value for key, value in self.headers if key == name), None)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, piece by piece."""
        while self._connection is not None and (chunk := await self._connection.next_chunk()):
            yield chunk

    async def read(self, limit: int) -> bytes:
        """The whole body; raises BrokenResponse when it is larger than `limit` bytes."""
        parts, size = [], 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise BrokenResponse(f"the answer is larger than {limit} bytes")
            parts.append(chunk)
        return b"".join(parts)

    def close(self) -> None:
        """Give the connection back if its answer was read to the end, else close it. May be called again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client.give_back(self._address, connection)


class UpstreamClient:
    """Calls to instances, over pooled connections; one for each event loop."""

    def __init__(self) -> None:
        self._idle: dict[str, list[_Connection]] = {}
        self._sweep_at = 0.0

    async def send(
        self,
        address: str,
        request: "UpstreamRequest",
        timeouts: Timeouts,
    ) -> UpstreamResponse:
        """Send one request and wait for the head of its answer; raises an UpstreamError."""
        connection = self._take(address) or await self._connect(address, timeouts.connect)
        try:
            async with asyncio.timeout(timeouts.response):
                connection.begin(is_head_request=request.method == b"HEAD")
                await self._write(connection, address, request)
                incoming = await connection.head()
        except TimeoutError as error:
            connection.close()
            raise TimedOut(f"no answer within {timeouts.response:g} s") from error
        except BaseException:
            connection.close()
            raise
        return UpstreamResponse(self, address, connection, incoming)

    async def _write(self, connection: _Connection, address: str, request: "UpstreamRequest") -> None:
        if isinstance(request.body, bytes):
            framing = b"content-length: %d\r\n" % len(request.body)
            await connection.write(request.head(address, framing) + request.body)
            return
        await connection.write(request.head(address, b""))
        async for chunk in request.body:
            await connection.write(chunk)

    def give_back(self, address: str, connection: _Connection) -> None:
        """Keep a connection for the next call, if it may be kept."""
        if not connection.may_be_kept:
            connection.close()
            return
        connection.idle_since = clock.monotonic()
        self._idle.setdefault(address, []).append(connection)
        if connection.idle_since >= self._sweep_at:
            self._sweep(connection.idle_since)

    def close(self) -> None:
        """Close every idle connection."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _take(self, address: str) -> _Connection | None:
        connections = self._idle.get(address)
        while connections:
            connection = connections.pop()
            if not connection.is_closing and clock.monotonic() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.close()
        self._idle.pop(address, None)
        return None

    def _sweep(self, now: float) -> None:
        """Let go of what nobody took again in time; instances come and go, and so do their addresses."""
        self._sweep_at = now + IDLE_SECONDS
        for address, connections in list(self._idle.items()):
            fresh = [each for each in connections if not each.is_closing and now - each.idle_since < IDLE_SECONDS]
            for stale in set(connections).difference(fresh):
                stale.close()
            if fresh:
                self._idle[address] = fresh
            else:
                del self._idle[address]

    async def _connect(self, address: str, timeout_seconds: float) -> _Connection:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_seconds):
                _, connection = await loop.create_connection(_Connection, host, int(port))
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(f"{address} cannot be reached") from error
        return connection


@dataclass(frozen=True)
class UpstreamRequest:
    """What to send. A body of bytes is framed here; a stream must come framed, with its headers saying how."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes] = b""

    def head(self, address: str, framing: bytes) -> bytes:
        """The request's first lines."""
        lines = [b"%s %s HTTP/1.1\r\n" % (self.method, self.target)]
        if not any(name == b"host" for name, _ in self.headers):
            lines.append(b"host: %s\r\n" % address.encode())
        lines += [b"%s: %s\r\n" % pair for pair in self.headers]
        return b"".join([*lines, framing, b"\r\n"])
