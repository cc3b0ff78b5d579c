"""InvokeEndpoint: checked, carried to an instance and back.

    signature -> members -> endpoint -> variant, instance -> call -> answer, or ModelError with what the container said

An answer may be of any size. Its first part is held back until it is whole or large: a container that fails within it
still ends in a ModelError. A later failure cuts the connection, so that no half of an answer looks like a whole one.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from controlplane.core import clock
from controlplane.core.errors import ValidationError
from controlplane.gateway.admission import admit
from controlplane.gateway.carry import Answer, Carrier, Choice, Errand, container_request
from controlplane.gateway.counting import Call
from controlplane.gateway.http import Request
from controlplane.gateway.patience import Patience
from controlplane.gateway.sessions import CLOSED_SESSION_HEADER, NEW_SESSION_HEADER
from controlplane.gateway.settings import Settings
from controlplane.routing.upstream import UpstreamError
from controlplane.wire.doors import runtime_params

HELD_BYTES = 256 * 1024
"""How much of an answer is held back before its status goes out."""

ERROR_BODY_BYTES = 8 * 1024
"""How much of a failed answer is read; a ModelError quotes less."""


_TO_CALLER = (b"x-amzn-sagemaker-custom-attributes", NEW_SESSION_HEADER, CLOSED_SESSION_HEADER)


@dataclass
class Invoker:
    """Answers InvokeEndpoint."""

    settings: Settings
    carrier: Carrier

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpoint request; raises ApiError before the first byte of the answer."""
        call = Call(clock.monotonic())
        limit = self.settings.payload_limit_bytes
        too_large = ValidationError(f"Request body is larger than the allowed {limit} bytes.")
        key, body = await admit(request, limit, too_large, self.carrier.directory, self.settings.region)
        params = runtime_params("InvokeEndpoint", endpoint_name, dict(request.headers), body)

        async def deliver(choice: Choice, answer: Answer, patience: Patience) -> None:
            await self._answer(request, choice, answer, patience)

        seconds = self.settings.invocation_timeout_seconds
        await self.carrier.carry(request, Errand(key, params, container_request(params), seconds, deliver), call)

    async def _answer(self, request: Request, choice: Choice, answer: Answer, patience: Patience) -> None:
        pieces = patience.over(answer.pieces)
        is_success = answer.is_success
        try:
            held, is_whole = await first_part(pieces, HELD_BYTES if is_success else ERROR_BODY_BYTES)
        except (UpstreamError, TimeoutError) as error:
            raise self.carrier.broken(choice, error) from error
        choice.call.answered()
        if not is_success:
            raise self.carrier.model_error(choice, answer.status, held.decode("utf-8", "replace"))
        headers = _answer_headers(request, choice, answer)
        if is_whole:
            await request.respond_bytes(200, headers, held)
        else:
            length = [(name, value) for name, value in answer.headers if name == b"content-length"]
            await request.stream(200, [*headers, *length], after(held, pieces))


def _answer_headers(request: Request, choice: Choice, answer: Answer) -> list[tuple[bytes, bytes]]:
    content_type = answer.header(b"content-type") or b"application/octet-stream"
    return [(b"content-type", content_type), *common_headers(request, choice, answer)]


def common_headers(request: Request, choice: Choice, answer: Answer) -> list[tuple[bytes, bytes]]:
    """The headers that every good answer of the runtime has, and those of the container's that the caller sees."""
    return [
        (b"x-amzn-invoked-production-variant", choice.variant.name.encode()),
        (b"x-amzn-requestid", request.request_id.encode()),
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
