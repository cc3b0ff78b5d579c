"""The express way of an asynchronous accept: from the bytes to the queue without a task, from the commit to the bytes.

    whole in one read, plain POST, signature good, endpoint known ----> queued ----> committed ----> 202
      | no                                                                | gone meanwhile
      v                                                                   v
    the ordinary way (uvicorn's cycle, the application), which waits, looks up, refuses and explains

It decides nothing by itself: `AsyncInvoker.at_once` checks with the same functions as the ordinary way, and whatever is
not plainly good is given to that. A task, a cycle and eight awaits a call cost several times what the checks do.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast
from uuid import UUID

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from controlplane.auth.sigv4 import SignedRequest, body_hash
from controlplane.core.errors import ApiError
from controlplane.gateway.app import Gateway
from controlplane.gateway.asynchronous import answer_of
from controlplane.gateway.http import Message, Receive, Send, log_refusal, texts_of
from controlplane.gateway.protocol import CautiousHttpProtocol
from controlplane.invocations.accept import EndpointGone
from controlplane.invocations.accepted import Accepted
from controlplane.routing.upstream import Headers
from controlplane.wire.errors import WireResponse, hide, runtime_error

ENDPOINT = rb"/endpoints/([A-Za-z0-9-]{1,63})/"
"""How the paths begin that go this way, with nothing to decode; what else may be legal goes the ordinary way."""

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, HTTPScope

App = Callable[[Message, Receive, Send], Awaitable[None]]


class _NobodyWaits:
    """Stands where uvicorn's cycle has an event that its task waits for."""

    def set(self) -> None:
        """Wake nobody."""


_NOBODY_WAITS = _NobodyWaits()


class ExpressCycle:
    """One request on the express way. To uvicorn's protocol it is a cycle, with the members that the protocol looks at."""

    __slots__ = ("body", "disconnected", "keep_alive", "message_event", "path", "request_id", "response_complete", "scope")
    response_started = False

    def __init__(self, scope: "HTTPScope", path: str, body: bytes, request_id: str, *, keep_alive: bool) -> None:
        self.scope = scope
        self.path = path
        self.body = body
        self.keep_alive = keep_alive
        self.request_id = request_id
        self.message_event = _NOBODY_WAITS
        self.disconnected = self.response_complete = False


class ExpressHttpProtocol(CautiousHttpProtocol):
    """Takes the accepts that can be taken at once; everything else as its base does."""

    _body: list[bytes] | None = None
    """The parts of the body while a request may still go the express way."""

    _path: ClassVar = re.compile(ENDPOINT + rb"(async-invocations)")
    """Which requests may go this way; its groups are the endpoint and what is asked of it."""

    _endpoint = _operation = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._invoker = cast(Gateway, self.config.app).async_invoker

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._body is not None:  # the rest is still on its way: how long it may be is for the ordinary way to say
            parts, self._body = self._body, None
            if not self.transport.is_closing():
                self._go_round(b"".join(parts))

    def on_body(self, body: bytes) -> None:
        if self._body is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._body is None:
            super().on_message_complete()
            return
        body, self._body = b"".join(self._body), None
        if not self._take(body):
            self._go_round(body)
            super().on_message_complete()

    def _begin_cycle(self) -> None:
        path = self._path.fullmatch(self.url)
        if path is None or not self._is_plain():
            super()._begin_cycle()
            return
        self._endpoint, self._operation = path[1].decode(), path[2].decode()
        self._body = []

    def _is_plain(self) -> bool:
        """Whether nothing about the request or the connection asks for more than a whole answer to a whole question."""
        return (
            self.parser.get_method() == b"POST"
            and self.parser.get_http_version() == "1.1"
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
        )

    def _go_round(self, body: bytes) -> None:
        """Give the request, with what there is of its body, to the ordinary way."""
        super()._begin_cycle()
        if body:
            super().on_body(body)

    def _take(self, body: bytes) -> bool:
        """Queue the request, if it is plainly good and there is room."""
        path, invoker = self.url.decode(), self._invoker
        signed = SignedRequest("POST", path, "", texts_of(self.headers), body_hash(body))
        accepted = invoker.at_once(signed, self._endpoint, body)
        if accepted is None or invoker.acceptor.is_full:
            return False
        cycle = ExpressCycle(self.scope, path, body, invoker.draw.text(), keep_alive=self.parser.should_keep_alive())
        self.cycle = cycle  # type: ignore[assignment]
        invoker.acceptor.submit(accepted, partial(self._settle, cycle, accepted))
        return True

    def _settle(self, cycle: ExpressCycle, accepted: Accepted, fault: BaseException | None) -> None:
        """Answer a request as its storing ended; one whose endpoint went meanwhile is looked at anew."""
        if fault is None:
            self.answer(cycle, answer_of(accepted, cycle.request_id))
        elif isinstance(fault, EndpointGone):
            self._invoker.directory.forget(UUID(accepted.endpoint_id))
            self.start_over(cycle)
        else:
            error = fault if isinstance(fault, ApiError) else hide(fault, cycle.request_id)
            log_refusal(error, cycle.request_id, cycle.path)
            self.answer(cycle, runtime_error(error, cycle.request_id))

    def answer(self, cycle: ExpressCycle, answer: WireResponse) -> None:
        """Write a whole answer of the wire library, as the ordinary way does: names in lower case."""
        lines = "".join([f"{name.lower()}: {value}\r\n" for name, value in answer.headers])
        self._write(cycle, answer.status, lines.encode("latin-1", "replace"), answer.body)

    def write_whole(self, cycle: ExpressCycle, status: int, headers: Headers, body: bytes) -> None:
        """Write a whole answer, its length added, and let the connection go on, or end."""
        self._write(cycle, status, _lines(headers), body)

    def _write(self, cycle: ExpressCycle, status: int, lines: bytes, body: bytes) -> None:
        cycle.response_complete = True
        if cycle.disconnected or self.transport.is_closing():
            return
        closing = b"" if cycle.keep_alive else b"connection: close\r\n"
        framing = b"content-length: %d\r\n%b\r\n" % (len(body), closing)
        self.transport.write(
            b"".join([STATUS_LINE[status], _lines(self.server_state.default_headers), lines, framing, body])
        )
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def start_over(self, cycle: ExpressCycle, app: App | None = None) -> None:
        """Give a request that was taken to the ordinary way after all, in its place before those that came after it.

        `app` is what answers it there, the whole application where none is given.
        """
        scope = cycle.scope
        scope["method"], scope["query_string"] = "POST", b""
        scope["path"], scope["raw_path"] = cycle.path, cycle.path.encode()
        ordinary = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=cycle.keep_alive,
            on_response=self.on_response_complete,
        )
        ordinary.body.extend(cycle.body)
        ordinary.more_body = False
        ordinary.message_event.set()
        ordinary.disconnected = cycle.disconnected
        cycle.response_complete = True
        if self.cycle is cycle:  # type: ignore[comparison-overlap]
            self.cycle = ordinary
        self._start_asgi_task(ordinary, cast("ASGI3Application", app or self.app))


def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % field for field in headers])
