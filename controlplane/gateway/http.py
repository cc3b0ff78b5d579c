"""ASGI's dictionaries, read and written in one place."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from controlplane.auth.sigv4 import SignedRequest
from controlplane.core.errors import ApiError
from controlplane.core.ids import new_uuid
from controlplane.wire.errors import WireResponse

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


@dataclass(frozen=True)
class Request:
    """One HTTP request; its body is still to be read."""

    method: str
    raw_path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    request_id: str
    receive: Receive
    send: Send

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
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise too_large
            digest.update(chunk)
            parts.append(chunk)
        return b"".join(parts), digest.hexdigest()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    def signed(self, body_sha256: str) -> SignedRequest:
        """The request as the signature covers it."""
        return SignedRequest(self.method, self.raw_path, self.query, self.headers, body_sha256)

    async def respond(self, answer: WireResponse) -> None:
        """Send a whole answer."""
        headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in answer.headers]
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await self.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": answer.body})

    async def stream(self, status: int, headers: list[tuple[bytes, bytes]], chunks: AsyncIterator[bytes]) -> None:
        """Send an answer piece by piece."""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        async for chunk in chunks:
            await self.send({"type": "http.response.body", "body": chunk, "more_body": True})
        await self.send({"type": "http.response.body", "body": b""})

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
