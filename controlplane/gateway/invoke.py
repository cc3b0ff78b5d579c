"""InvokeEndpoint: checked, carried to an instance and back.

    signature -> members -> endpoint -> variant, instance -> call -> answer, or ModelError with what the container said

An answer may be of any size. Its first part is held back until it is whole or large: a container that fails within it
still ends in a ModelError. A later failure cuts the connection, so that no half of an answer looks like a whole one.
"""

from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from controlplane.core import clock
from controlplane.core.errors import ApiError, ValidationError
from controlplane.gateway.admission import Caller, admit, admit_at_once, told_once
from controlplane.gateway.carry import Carrier
from controlplane.gateway.counting import Call
from controlplane.gateway.errand import Answer, Choice, Deliver, Errand, Head, container_request
from controlplane.gateway.http import Request, WholeRequest
from controlplane.gateway.patience import Patience
from controlplane.gateway.sessions import CLOSED_SESSION_HEADER, NEW_SESSION_HEADER
from controlplane.gateway.settings import Settings
from controlplane.routing.upstream import Headers, UpstreamError
from controlplane.wire.doors import runtime_headers, runtime_params
from controlplane.wire.errors import WireResponse, runtime_error

HELD_BYTES = 256 * 1024
"""How much of an answer is held back before its status goes out."""

ERROR_BODY_BYTES = 8 * 1024
"""How much of a failed answer is read; a ModelError quotes less."""


_TO_CALLER = (b"x-amzn-sagemaker-custom-attributes", NEW_SESSION_HEADER, CLOSED_SESSION_HEADER)


@dataclass
class Invoker:
    """Answers InvokeEndpoint; a `Door` to the express way."""

    settings: Settings
    carrier: Carrier

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpoint request; raises ApiError before the first byte of the answer."""
        call = Call(clock.monotonic())
        limit = self.settings.payload_limit_bytes
        too_large = ValidationError(f"Request body is larger than the allowed {limit} bytes.")
        key, body = await admit(request, limit, too_large, self.carrier.directory, self.settings.region)
        errand = self._errand(key, endpoint_name, told_once(request.headers), body)
        await self.carrier.carry(request, errand, self.deliver_to(request), call)

    def at_once(self, asked: WholeRequest) -> Errand | None:
        """What `invoke` would have carried (see `Door`)."""
        if len(asked.body) > self.settings.payload_limit_bytes:
            return None
        caller = admit_at_once(asked, self.carrier.directory, self.settings.region)
        return self._errand(caller, asked.endpoint_name, told_once(asked.headers), asked.body)

    def held_bytes(self, head: Head) -> int:
        del head
        return HELD_BYTES

    def good(self, request_id: str, choice: Choice, head: Head) -> tuple[int, Headers]:
        content_type = head.header(b"content-type") or b"application/octet-stream"
        return 200, [(b"content-type", content_type), *common_headers(request_id, choice, head)]

    def failure(self, choice: Choice, head: Head, said: bytes) -> ApiError:
        return self.carrier.model_error(choice, head.status, said.decode("utf-8", "replace"))

    def broken(self, choice: Choice, head: Head, error: Exception) -> ApiError:
        del head
        return self.carrier.broken(choice, error)

    def refusal(self, error: ApiError, request_id: str) -> WireResponse:
        return runtime_error(error, request_id)

    async def guarded(self, request: Request, work: Awaitable[None]) -> None:
        del request  # errors in this door's form are given to every runtime request
        await work

    def deliver_to(self, request: Request) -> Deliver:
        async def deliver(choice: Choice, answer: Answer, patience: Patience) -> None:
            await self._answer(request, choice, answer, patience)

        return deliver

    def _errand(self, caller: Caller, endpoint_name: str, headers: Mapping[str, str], body: bytes) -> Errand:
        params = members(endpoint_name, headers, body)
        return Errand(caller, params, container_request(params), self.settings.invocation_timeout_seconds)

    async def _answer(self, request: Request, choice: Choice, answer: Answer, patience: Patience) -> None:
        pieces = patience.over(answer.pieces)
        is_success = answer.is_success
        try:
            held, is_whole = await first_part(pieces, HELD_BYTES if is_success else ERROR_BODY_BYTES)
        except (UpstreamError, TimeoutError) as error:
            raise self.carrier.broken(choice, error) from error
        choice.call.answered()
        if not is_success:
            raise self.failure(choice, answer, held)
        status, headers = self.good(request.request_id, choice, answer)
        if is_whole:
            await request.respond_bytes(status, headers, held)
        else:
            length = [(name, value) for name, value in answer.headers if name == b"content-length"]
            await request.stream(status, [*headers, *length], after(held, pieces))


def members(endpoint_name: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The checked members of a call; raises ValidationError."""
    telling = tuple([pair for pair in headers.items() if pair[0] in _telling_headers()])
    return {**_members(endpoint_name, telling), "Body": body}


@cache
def _telling_headers() -> frozenset[str]:
    return runtime_headers("InvokeEndpoint")


@lru_cache(maxsize=1024)
def _members(endpoint_name: str, telling_headers: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:
    """The checked members of a call, its body aside; kept, since most calls of a client have the same."""
    return runtime_params("InvokeEndpoint", endpoint_name, dict(telling_headers), b"")


def common_headers(request_id: str, choice: Choice, answer: Head) -> Headers:
    """The headers that every good answer of the runtime has, and those of the container's that the caller sees."""
    return [
        (b"x-amzn-invoked-production-variant", choice.variant.name.encode()),
        (b"x-amzn-requestid", request_id.encode()),
        *((name, value) for name in _TO_CALLER if (value := answer.header(name)) is not None),
    ]


async def first_part(pieces: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """What comes first, until there is more than `limit`; and whether that is all."""
    parts, size = [], 0
    async for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(parts), False
    return b"".join(parts), True


async def after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The first part, then the rest."""
    yield first
    async for chunk in rest:
        yield chunk
