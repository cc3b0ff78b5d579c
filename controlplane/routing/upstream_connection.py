"""One connection to an instance: the bytes that arrive, parsed by httptools, and whoever waits for them.

    begin -> write -> head, pieces of the body ... -> complete -> may be kept for the next call
                          |
                          v broken off, not HTTP, too large a head: an error for whoever reads it

It serves one call at a time. A reader either awaits (`head`, `next_chunk`) or leaves a `listener`, which is called after
each arrival and looks at `incoming` itself; that costs no task.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import httptools

from controlplane.routing.sockets import notice_silence

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


@dataclass(slots=True)
class Incoming:
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

    @property
    def is_refusal(self) -> bool:
        """Whether it says no: to a request that is too large, say, before that was read."""
        return self.head_seen and self.status >= 400


class Connection(asyncio.Protocol):
    """One socket; parses what arrives and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.listener: Callable[[], None] | None = None
        self._ended_well = False
        self._incoming: Incoming | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_paused = False
        self.is_cut_short = False
        """Whether a request was not sent to its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        notice_silence(transport)

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    @property
    def has_heard_enough(self) -> bool:
        """Whether nobody will read the rest of the request: the connection is lost, or the answer is a refusal already.

        A good answer may begin before the request is whole, and go by the rest of it.
        """
        return self.is_closing or self.incoming.is_refusal

    @property
    def may_be_kept(self) -> bool:
        """Whether another call may follow: the request went out whole, its answer is complete, and the answer's reader did
        not leave the socket paused.
        """
        return (
            self._ended_well
            and not self._is_paused
            and not self.is_closing
            and not self.is_cut_short
            and not self._transport.get_write_buffer_size()
        )

    @property
    def is_broken_off(self) -> bool:
        """Whether the answer ended before it was whole, by the instance's doing."""
        return self._incoming is not None and self._incoming.error is not None

    @property
    def incoming(self) -> Incoming:
        """The answer as far as it is there."""
        if self._incoming is None:
            raise AssertionError("no request was sent on this connection")
        return self._incoming

    def close(self) -> None:
        self._transport.abort()

    def begin(self, *, is_head_request: bool) -> None:
        """Expect the answer to the request that is about to be written."""
        self._parser = httptools.HttpResponseParser(self)
        self._incoming = Incoming(is_head_request)
        self._ended_well = False

    async def write(self, data: bytes) -> None:
        """Write a piece, and wait until the next may follow or need not."""
        self._transport.write(data)
        if not self._can_write.is_set():
            await self._can_write.wait()

    def write_at_once(self, data: bytes) -> None:
        """Write a small piece, whose buffering is nobody's concern."""
        self._transport.write(data)

    async def head(self) -> Incoming:
        """The answer once its head is there."""
        incoming = self.incoming
        while not incoming.head_seen:
            if incoming.error:
                raise incoming.error
            await self._wait()
        return incoming

    async def next_chunk(self) -> bytes:
        """The next piece of the body, empty at its end."""
        incoming = self.incoming
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
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenResponse(f"the answer is not HTTP: {error}"))
        if not incoming.head_seen and incoming.head_bytes > HEADERS_LIMIT_BYTES:
            self._fail(_too_large_headers())  # the parser hands a header on once it is whole, which may be never
        if self.listener is not None:
            self.listener()

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
        else:
            self._fail(BrokenResponse("the connection was closed before the answer was complete"))
        if self.listener is not None:
            self.listener()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    # What httptools calls.

    def on_message_begin(self) -> None:
        if self.incoming.complete:
            raise BrokenResponse("there is more than one answer")  # the first one is good, the connection is not

    def on_header(self, name: bytes, value: bytes) -> None:
        incoming = self.incoming
        incoming.header_bytes += len(name) + len(value)
        if incoming.header_bytes > HEADERS_LIMIT_BYTES:
            self._fail(_too_large_headers())
            raise _too_large_headers()  # ends the parsing
        incoming.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        incoming = self.incoming
        incoming.status = self._parser.get_status_code()
        if incoming.status < 200:
            return
        incoming.head_seen = True
        if incoming.is_head_request:
            incoming.complete = True
        if incoming.is_refusal:
            self._can_write.set()  # whoever is still sending waits in vain
        self._wake()

    def on_body(self, body: bytes) -> None:
        incoming = self.incoming
        incoming.chunks.append(body)
        incoming.buffered += len(body)
        if incoming.buffered > HIGH_WATER_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        incoming = self.incoming
        if incoming.status < 200:  # an interim answer: the real one follows
            incoming.headers.clear()
            return
        incoming.complete = True
        self._ended_well = self._parser.should_keep_alive() and not incoming.is_head_request
        self._wake()

    def _ends_with_connection(self, incoming: Incoming) -> bool:
        """Whether the body has neither a length nor chunks, so that the end of the connection is its end."""
        return not any(name in (b"content-length", b"transfer-encoding") for name, _ in incoming.headers)

    def _fail(self, error: UpstreamError) -> None:
        incoming = self.incoming
        if not incoming.complete:  # what comes behind a whole answer spoils the connection, and not the answer
            incoming.error = incoming.error or error
        self.close()
        self._wake()


def _too_large_headers() -> BrokenResponse:
    return BrokenResponse(f"the answer's headers are larger than {HEADERS_LIMIT_BYTES} bytes")
