"""InvokeEndpoint: checked, routed, carried to an instance and back.

    signature -> members -> endpoint -> variant, instance -> call -> answer, or ModelError with what the container said

A connect failure, before anything was sent, may try one other instance. Anything after that is the model's error.
An answer may be of any size. Its first part is held back until it is whole or large: a container that fails within it
still ends in a ModelError. A later failure cuts the connection, so that no half of an answer looks like a whole one.
"""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.core.errors import ApiError, ModelError, ServiceUnavailable, ValidationError
from controlplane.gateway.admission import admit, serving_route
from controlplane.gateway.counting import Call, Counts
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
from controlplane.gateway.model_errors import NO_STATUS, TIMED_OUT, UNREACHED, model_error
from controlplane.gateway.patience import Patience
from controlplane.gateway.settings import Settings
from controlplane.routing.policies import InFlight, choose_target, choose_variant
from controlplane.routing.table import Route, Target, VariantRoute
from controlplane.routing.upstream import (
    ConnectFailed,
    TimedOut,
    Timeouts,
    UpstreamClient,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
)
from controlplane.wire.doors import runtime_params

HELD_BYTES = 256 * 1024
"""How much of an answer is held back before its status goes out."""

ERROR_BODY_BYTES = 8 * 1024
"""How much of a failed answer is read; a ModelError quotes less."""

_TO_CONTAINER = {
    "ContentType": b"content-type",
    "Accept": b"accept",
    "CustomAttributes": b"x-amzn-sagemaker-custom-attributes",
    "InferenceId": b"x-amzn-sagemaker-inference-id",
}
"""Members that the container sees; every other request header stays behind."""


@dataclass(frozen=True)
class Choice:
    """Where a call goes, and what is counted of it."""

    route: Route
    variant: VariantRoute
    target: Target
    call: Call


@dataclass
class Invoker:
    """Everything a call needs."""

    settings: Settings
    directory: Directory
    upstream: UpstreamClient
    in_flight: InFlight
    counts: Counts
    draw: random.Random = field(default_factory=random.Random)

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpoint request; raises ApiError before the first byte of the answer."""
        call = Call(clock.monotonic())
        limit = self.settings.payload_limit_bytes
        too_large = ValidationError(f"Request body is larger than the allowed {limit} bytes.")
        key, body = await admit(request, limit, too_large, self.directory, self.settings.region)
        params = runtime_params("InvokeEndpoint", endpoint_name, dict(request.headers), body)
        try:
            await request.unless_gone(self._carry(request, key, params, call))
        except (ApiError, UpstreamError, TimeoutError) as error:
            _note_failure(call, error)
            raise
        finally:
            self.counts.add(call)

    async def _carry(self, request: Request, key: Key, params: dict[str, Any], call: Call) -> None:
        """Call an instance; if no connection to it can be made, one other of the variant."""
        choice = await self._choose(key, params, call)
        try:
            await self._call(request, choice, params)
        except ConnectFailed:
            try:
                same_variant = {**params, "TargetVariant": choice.variant.name}
                other = await self._choose(key, same_variant, call, avoid=choice.target)
                await self._call(request, other, params)
            except (ConnectFailed, ServiceUnavailable) as error:
                raise self._model_error(choice, NO_STATUS, UNREACHED) from error

    async def _choose(self, key: Key, params: dict[str, Any], call: Call, avoid: Target | None = None) -> Choice:
        """Where the call goes by the table of this moment.

        Nothing is awaited from the look at the table until the call is counted: once this gateway has reported an
        instance as drained, no call goes there any more.
        """
        route = await serving_route(self.directory, key, params["EndpointName"], is_async=False)
        variant = choose_variant(route, params.get("TargetVariant"), self.draw)
        call.route, call.variant = route, variant
        refused = () if avoid is None else (avoid,)
        return Choice(route, variant, choose_target(variant, self.in_flight.at, self.draw, refused), call)

    async def _call(self, request: Request, choice: Choice, params: dict[str, Any]) -> None:
        seconds = self.settings.invocation_timeout_seconds
        patience = Patience(seconds)
        with self.in_flight.call(choice.target.instance_id):
            try:
                asked = _container_request(params)
                choice.call.ask()
                answer = await patience.wait(self.upstream.send(choice.target.address, asked, Timeouts(response=seconds)))
            except ConnectFailed:
                raise
            except (TimedOut, TimeoutError, UpstreamError) as error:
                raise self._broken(choice, error) from error
            try:
                await self._answer(request, choice, answer, patience)
            finally:
                answer.close()

    async def _answer(self, request: Request, choice: Choice, answer: UpstreamResponse, patience: Patience) -> None:
        pieces = patience.over(answer.chunks())
        is_success = 200 <= answer.status < 300
        try:
            held, is_whole = await _first_part(pieces, HELD_BYTES if is_success else ERROR_BODY_BYTES)
        except (UpstreamError, TimeoutError) as error:
            raise self._broken(choice, error) from error
        choice.call.answered()
        if not is_success:
            raise self._model_error(choice, answer.status, held.decode("utf-8", "replace"))
        headers = _answer_headers(request, choice, answer)
        if is_whole:
            await request.respond_bytes(200, headers, held)
        else:
            length = [(name, value) for name, value in answer.headers if name == b"content-length"]
            await request.stream(200, [*headers, *length], _after(held, pieces))

    def _broken(self, choice: Choice, error: Exception) -> ModelError:
        """The error for a container that gave no whole answer."""
        choice.call.answered()
        if isinstance(error, TimedOut | TimeoutError):
            return self._model_error(choice, NO_STATUS, TIMED_OUT)
        return self._model_error(choice, NO_STATUS, f"The container gave no proper answer: {error}.")

    def _model_error(self, choice: Choice, status: int, text: str) -> ModelError:
        return model_error(choice.route, self.settings.region, status, text)


def _note_failure(call: Call, error: Exception) -> None:
    status = error.extra["OriginalStatusCode"] if isinstance(error, ModelError) else 0
    call.fail(cast(int, status), is_model_error=not isinstance(error, ServiceUnavailable))


def _container_request(params: dict[str, Any]) -> UpstreamRequest:
    headers = [(name, params[member].encode("latin-1")) for member, name in _TO_CONTAINER.items() if member in params]
    return UpstreamRequest(b"POST", b"/invocations", headers, params["Body"])


def _answer_headers(request: Request, choice: Choice, answer: UpstreamResponse) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"content-type", answer.header(b"content-type") or b"application/octet-stream"),
        (b"x-amzn-invoked-production-variant", choice.variant.name.encode()),
        (b"x-amzn-requestid", request.request_id.encode()),
    ]
    attributes = answer.header(b"x-amzn-sagemaker-custom-attributes")
    return headers if attributes is None else [*headers, (b"x-amzn-sagemaker-custom-attributes", attributes)]


async def _first_part(pieces: AsyncIterator[bytes], limit: int) -> tuple[bytes, bool]:
    """What comes first, until there is more than `limit`; and whether that is all."""
    parts, size = [], 0
    async for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(parts), False
    return b"".join(parts), True


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
