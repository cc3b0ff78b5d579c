"""ASGI's dictionaries, read and written in one place."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from controlplane.auth.sigv4 import SignedRequest, body_hash
from controlplane.core.errors import ApiError, RequestTimeout
from controlplane.core.ids import new_uuid
from controlplane.gateway.patience import Patience
from controlplane.wire.errors import WireResponse

BODY_SECONDS = 120.0
"""How long a body that is read whole may be waited for."""

STALL_SECONDS = 60.0
"""How long a client may go without sending the next piece of a body that is passed on, or a piece of its answer unread."""

_LOGGED_STATUSES = frozenset({424, 500, 503})
"""Statuses of which the log has a line: something other than the caller has failed."""

log = logging.getLogger(__name__)

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
RawHeaders = Iterable[tuple[bytes, bytes]]


def texts_of(headers: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers as text (latin-1), decoded together, which is cheaper; raises ValueError for a value of several lines."""
    if not headers:
        return ()
    names = _names(b"\n".join([name for name, _ in headers]))
    values = b"\n".join([value for _, value in headers]).decode("latin-1").split("\n")
    return tuple(zip(names, values, strict=True))


@lru_cache(maxsize=256)
def _names(joined: bytes) -> list[str]:
    """The names of headers, kept, since all calls of a client have the same: so are their hashes."""
    return joined.decode("latin-1").split("\n")


@dataclass(slots=True)
class WholeRequest:
    """A POST that is there as a whole, without a query; header names in lower case, values latin-1 text.

    `operation` is what follows the endpoint's name in its path.
    """

    path: str
    endpoint_name: str
    operation: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value of a header (lower-case name)."""
        return next((value for key, value in self.headers if key == name), None)

    def signed(self) -> SignedRequest:
        """The request as the signature covers it."""
        return SignedRequest("POST", self.path, "", self.headers, body_hash(self.body))


def log_refusal(error: ApiError, request_id: str, raw_path: str) -> None:
    """Leave a line in the log about a request that ends in this error, if it is not the caller's."""
    if error.status in _LOGGED_STATUSES:
        log.warning("request %s %r: %d %s", request_id, raw_path, error.status, error.code)


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


@dataclass
class Request:
    """One HTTP request, its body still to be read, and the way to answer it.

    `has_started` tells whether the head of an answer is out, after which no other answer can be given; `was_read` whether
    its body was asked for.
    """

    method: str
    raw_path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    request_id: str
    receive: Receive
    send: Send
    has_started: bool = False
    was_read: bool = False

    @classmethod
    def of(cls, scope: Message, receive: Receive, send: Send) -> "Request":
        """The request of an ASGI scope; header names in lower case, values latin-1 text."""
        headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"])
        path = scope.get("raw_path") or scope["path"].encode()
        return cls(
            scope["method"],
            path.partition(b"?")[0].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            headers,
            str(new_uuid()),
            receive,
            send,
        )

    def header(self, name: str) -> str | None:
        """The first value of a header (lower-case name)."""
        return next((value for key, value in self.headers if key == name), None)

    async def body(self, limit: int, too_large: ApiError) -> tuple[bytes, str]:
        """The whole body and its SHA-256; raises `too_large` as soon as it is known to hold more than `limit` bytes."""
        declared = self.header("content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise too_large
        parts, size, digest = [], 0, hashlib.sha256()
        async for chunk in self._received(Patience(BODY_SECONDS)):
            size += len(chunk)
            if size > limit:
                raise too_large
            digest.update(chunk)
            parts.append(chunk)
        return b"".join(parts), digest.hexdigest()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, of any size, as long as it keeps arriving."""
        async for chunk in self._received(None):
            yield chunk

    async def _received(self, patience: Patience | None) -> AsyncIterator[bytes]:
        """The body's pieces, all of them within `patience` or else each within its own time; raises RequestTimeout."""
        self.was_read = True
        while True:
            try:
                message = await (patience or Patience(STALL_SECONDS)).wait(self.receive())
            except TimeoutError as error:
                raise RequestTimeout("The body of the request did not arrive in time.") from error
            if message["type"] == "http.disconnect":
                raise ClientGone
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    def signed(self, body_sha256: str) -> SignedRequest:
        """The request as the signature covers it."""
        return SignedRequest(self.method, self.raw_path, self.query, self.headers, body_sha256)

    async def respond(self, answer: WireResponse) -> None:
        """Send a whole answer of the wire library."""
        headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers]
        await self.respond_bytes(answer.status, headers, answer.body)

    async def respond_bytes(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a whole answer; its length is added."""
        framing = [(b"content-length", b"%d" % len(body))]
        if status == RequestTimeout.status:
            framing.append((b"connection", b"close"))  # the rest of the body is not waited for
        await self._start(status, [*headers, *framing])
        await self.send({"type": "http.response.body", "body": body})

    async def stream(self, status: int, headers: RawHeaders, chunks: AsyncIterator[bytes]) -> None:
        """Send an answer piece by piece, no faster than the client reads; one that no longer reads counts as gone.

        Without a length among `headers` it goes out in chunks.
        """
        await self._start(status, [*headers])
        async for chunk in chunks:
            try:
                await Patience(STALL_SECONDS).wait(
                    self.send({"type": "http.response.body", "body": chunk, "more_body": True})
                )
            except TimeoutError as error:
                raise ClientGone from error
        await self.send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_started = True
        if not self.was_read and (self.header("expect") or "").lower() == "100-continue":
            # The client keeps its body then; what comes next on the connection would be taken for it (RFC 9110, 10.1.1).
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` while watching the client; its hanging up cancels the work. Call it once the body is read."""
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(self._hang_up())
        try:
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _hang_up(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
