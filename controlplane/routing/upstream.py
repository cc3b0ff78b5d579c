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
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from controlplane.core import clock
from controlplane.routing.upstream_connection import (
    HEADERS_LIMIT_BYTES,
    HIGH_WATER_BYTES,
    BrokenResponse,
    ConnectFailed,
    Connection,
    Headers,
    Incoming,
    TimedOut,
    UpstreamError,
)

__all__ = (
    "HEADERS_LIMIT_BYTES",
    "HIGH_WATER_BYTES",
    "BrokenResponse",
    "ConnectFailed",
    "Exchange",
    "Headers",
    "TimedOut",
    "Timeouts",
    "UpstreamClient",
    "UpstreamError",
    "UpstreamRequest",
    "UpstreamResponse",
)

IDLE_SECONDS = 2.0


@dataclass(frozen=True)
class Timeouts:
    """Seconds to connect, and until the head of the answer is there."""

    connect: float = 2.0
    response: float = 60.0


class UpstreamResponse:
    """An answer whose head is there and whose body is read by whoever holds it; close it in any case."""

    def __init__(self, client: "UpstreamClient", address: str, connection: Connection, incoming: Incoming) -> None:
        self.status = incoming.status
        self.headers = incoming.headers
        self._client = client
        self._address = address
        self._connection: Connection | None = connection

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


class Exchange:
    """A request that is out on a kept connection, and its answer as far as it is there; close it in any case.

    Nobody awaits it: the listener that `UpstreamClient.begin` was given is called after each arrival.
    """

    __slots__ = ("_address", "_client", "_connection", "incoming")

    def __init__(self, client: "UpstreamClient", address: str, connection: Connection) -> None:
        self.incoming = connection.incoming
        self._client = client
        self._address = address
        self._connection: Connection | None = connection

    def body(self) -> bytes:
        """The body as far as it is there."""
        chunks = self.incoming.chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def awaited(self) -> UpstreamResponse:
        """The answer, whose head is there, for somebody who awaits the rest; the listener hears nothing more."""
        connection, self._connection = self._connection, None
        if connection is None:
            raise AssertionError("the exchange is closed")
        connection.listener = None
        return UpstreamResponse(self._client, self._address, connection, self.incoming)

    def close(self) -> None:
        """Give the connection back if its answer is complete, else close it. May be called again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.listener = None
            self._client.give_back(self._address, connection)


class UpstreamClient:
    """Calls to instances, over pooled connections; one for each event loop."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Connection]] = {}
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
            self._let_go(address, connection)
            raise
        return UpstreamResponse(self, address, connection, incoming)

    def begin(self, address: str, request: "UpstreamRequest", listener: Callable[[], None]) -> Exchange | None:
        """Send a request on a kept connection and wait for nothing; without such a connection nothing is sent: None.

        For small bodies of bytes: it is written at once, however slow the instance reads.
        """
        connection = self._take(address)
        if connection is None:
            return None
        connection.begin(is_head_request=request.method == b"HEAD")
        connection.listener = listener
        connection.write_at_once(request.whole(address))
        return Exchange(self, address, connection)

    async def _write(self, connection: Connection, address: str, request: "UpstreamRequest") -> None:
        if isinstance(request.body, bytes):
            await connection.write(request.whole(address))
            return
        await connection.write(request.head(address, b""))
        async for chunk in request.body:
            if connection.has_heard_enough:
                connection.is_cut_short = True
                return
            await connection.write(chunk)

    def give_back(self, address: str, connection: Connection) -> None:
        """Keep a connection for the next call, if it may be kept."""
        if not connection.may_be_kept:
            self._let_go(address, connection)
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

    def _let_go(self, address: str, connection: Connection) -> None:
        """Close a connection; where the instance broke its answer off, all that are kept to it, too.

        It may be about to end, and its other connections be dead already. To make a new one tells before anything is sent.
        """
        connection.close()
        if connection.is_broken_off:
            for each in self._idle.pop(address, ()):
                each.close()

    def _take(self, address: str) -> Connection | None:
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

    async def _connect(self, address: str, timeout_seconds: float) -> Connection:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_seconds):
                _, connection = await loop.create_connection(Connection, host, int(port))
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

    def whole(self, address: str) -> bytes:
        """The request from its first line to the end of its body, which is one of bytes."""
        if not isinstance(self.body, bytes):
            raise AssertionError("a stream is not there as a whole")
        return self.head(address, b"content-length: %d\r\n" % len(self.body)) + self.body

    def head(self, address: str, framing: bytes) -> bytes:
        """The request's first lines."""
        lines = [b"%s %s HTTP/1.1\r\n" % (self.method, self.target)]
        if b"host" not in [name for name, _ in self.headers]:
            lines.append(b"host: %s\r\n" % address.encode())
        lines += [b"%s: %s\r\n" % pair for pair in self.headers]
        return b"".join([*lines, framing, b"\r\n"])
