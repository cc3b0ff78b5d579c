"""uvicorn's HTTP protocol with limits on the head of a request: how long it may take and how large it may be.

uvicorn ends connections that idle between two requests, but waits for ever for the first request and for the rest of
one that has begun, and keeps as much of a head as it is sent. Once the head is there, the application has limits of
its own. A request that is no HTTP, or has too large a head, is answered in the API's form and its connection closed.

Whoever is answered before the request was read, and is told that the connection ends, still sends. Closing it at once
would have the system answer that with a reset, which makes the client's system drop the answer unread (RFC 9112, 9.6):

    answered ----> our side is closed ----> what still comes is thrown away ----> closed by the client, or after
                                                                                  LINGER_SECONDS
"""

import asyncio
from email.utils import formatdate
from typing import NoReturn, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from controlplane.core import clock
from controlplane.core.errors import ApiError, SerializationException
from controlplane.core.ids import new_uuid
from controlplane.gateway.error_forms import form_of
from controlplane.wire.errors import WireResponse

HEAD_SECONDS = 30.0
HEAD_BYTES = 64 * 1024
HEAD_FIELDS = 128
LINGER_SECONDS = 5.0

TOO_LARGE_STATUS = 431


class CautiousHttpProtocol(HttpToolsProtocol):
    """Closes a connection on which no whole head arrives within HEAD_SECONDS of its opening, or of the head's start."""

    _head_timer: asyncio.TimerHandle | None = None
    _is_in_head = True
    """Whether a head is expected, or has begun and is not there yet."""

    _head_bytes = 0
    _bare_bytes = 0
    """What has arrived after the head without a byte of the body: extensions of chunks, trailers."""

    _read_bytes = 0
    _is_too_large = False
    _parting_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._parting_timer is not None:
            self._parting_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._parting_timer is not None:
            return
        self._read_bytes = len(data)
        if self._is_in_head:
            self._head_bytes += len(data)
        else:
            self._bare_bytes += len(data)
        super().data_received(data)
        if self._is_in_head:  # one that comes in one piece, as most do, needs no timer
            self._wait_for_head()
        elif self._bare_bytes > HEAD_BYTES:  # trailers are kept by the parser, whoever sends them
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._bare_bytes = 0
        if not self._is_in_head:
            self._is_in_head, self._head_bytes = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # As the base does it, whose call would cost as much as the rest of it.
        if not self._is_in_head:
            return  # a trailer: what follows the body says nothing about the request
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > HEAD_FIELDS:
            self._give_up()

    def on_headers_complete(self) -> None:
        if self._head_bytes + self._read_bytes > HEAD_BYTES and self._head_size() > HEAD_BYTES:
            self._give_up()
        self._is_in_head = False
        self._stop_waiting()
        self._begin_cycle()

    def on_body(self, body: bytes) -> None:
        self._bare_bytes = 0
        super().on_body(body)

    def _begin_cycle(self) -> None:
        """Hand the request, whose head is there and within its limits, to the application."""
        super().on_headers_complete()
        if self.expect_100_continue or not self.cycle.keep_alive:
            self.cycle.transport = cast(asyncio.Transport, _Last(self, self.cycle))

    def part(self) -> None:
        """End the connection, whose last answer is written, so that the answer arrives although the client still sends."""
        if self.transport.is_closing() or self.pipeline or not self.transport.can_write_eof():
            self.transport.close()
        elif self._parting_timer is None:
            self._parting_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True  # nobody will hear what else it has to say
                self.cycle.message_event.set()
            self.transport.write_eof()
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer without the application, and close the connection: what follows on it cannot be told apart.

        Called by uvicorn too, when the parsing fails. Nothing is said into the midst of an answer.
        """
        if self._parting_timer is not None:
            return
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not self.transport.is_closing() and not is_answering:
            path = getattr(self, "url", b"").partition(b"?")[0].decode("latin-1")  # what there is of it
            self.transport.write(_whole(form_of(path)(self._error(msg), str(new_uuid()))))
        self.part()

    def _error(self, text: str) -> ApiError:
        if not self._is_too_large:
            return SerializationException(text)
        error = SerializationException(f"The head of a request may hold {HEAD_FIELDS} fields and {HEAD_BYTES} bytes.")
        error.status = TOO_LARGE_STATUS
        return error

    def _give_up(self) -> NoReturn:
        """End the parsing."""
        self._is_too_large = True
        raise ValueError("the head of the request is too large")

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _wait_for_head(self) -> None:
        """Wait for the rest of a head, for so long and for so much."""
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        if self._head_bytes > HEAD_BYTES:  # the parser hands a field on once it is whole, which may be never
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._is_too_large = True
        self.send_400_response("")

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Last:
    """The transport as the last cycle of a connection has it: it ends the connection by parting, unless all is read."""

    __slots__ = ("_cycle", "_protocol", "is_closing", "write")

    def __init__(self, protocol: CautiousHttpProtocol, cycle: RequestResponseCycle) -> None:
        self._protocol = protocol
        self._cycle = cycle
        self.write, self.is_closing = protocol.transport.write, protocol.transport.is_closing

    def close(self) -> None:
        """End the connection."""
        if self._cycle.more_body:
            self._protocol.part()
        else:
            self._protocol.transport.close()


def _whole(answer: WireResponse) -> bytes:
    """The answer as it goes over the wire, the connection's last."""
    framing = (
        ("Date", formatdate(clock.now().timestamp(), usegmt=True)),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
    )
    lines = [f"{name}: {value}\r\n".encode("latin-1") for name, value in (*answer.headers, *framing)]
    return b"".join([STATUS_LINE[answer.status], *lines, b"\r\n", answer.body])
