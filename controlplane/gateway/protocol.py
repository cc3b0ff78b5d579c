"""uvicorn's HTTP protocol with limits on the head of a request: how long it may take and how large it may be.

uvicorn ends connections that idle between two requests, but waits for ever for the first request and for the rest of
one that has begun, and keeps as much of a head as it is sent. Once the head is there, the application has limits of
its own. A request that is no HTTP, or has too large a head, is answered in the API's form and its connection closed.
"""

import asyncio
from email.utils import formatdate
from typing import NoReturn

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from controlplane.core import clock
from controlplane.core.errors import ApiError, SerializationException
from controlplane.core.ids import new_uuid
from controlplane.wire.errors import WireResponse, json11_error

HEAD_SECONDS = 30.0
HEAD_BYTES = 64 * 1024
HEAD_FIELDS = 128

TOO_LARGE_STATUS = 431


class CautiousHttpProtocol(HttpToolsProtocol):
    """Closes a connection on which no whole head arrives within HEAD_SECONDS of its opening, or of the head's start."""

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # The parser hands a field on once it is whole, which may be never.
        if self._head_timer is not None and self._head_bytes > HEAD_BYTES:
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEAD_FIELDS:
            self._give_up()

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_BYTES:
            self._give_up()
        self._head_came()
        self._begin_cycle()

    def _begin_cycle(self) -> None:
        """Hand the request, whose head is there and within its limits, to the application."""
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer without the application, and close the connection: what follows on it cannot be told apart.

        Called by uvicorn too, when the parsing fails. Nothing is said into the midst of an answer.
        """
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not self.transport.is_closing() and not is_answering:
            self.transport.write(_whole(json11_error(self._error(msg), str(new_uuid()))))
        self.transport.close()

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

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
            self._head_bytes = 0

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _whole(answer: WireResponse) -> bytes:
    """The answer as it goes over the wire, the connection's last."""
    framing = (
        ("Date", formatdate(clock.now().timestamp(), usegmt=True)),
        ("Content-Length", str(len(answer.body))),
        ("Connection", "close"),
    )
    lines = [f"{name}: {value}\r\n".encode("latin-1") for name, value in (*answer.headers, *framing)]
    return b"".join([STATUS_LINE[answer.status], *lines, b"\r\n", answer.body])
