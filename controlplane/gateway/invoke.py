"""InvokeEndpoint: checked, routed, carried to an instance and back.

    signature -> members -> endpoint -> variant, instance -> call -> answer, or ModelError with what the container said

A connect failure, before anything was sent, may try one other instance. Anything after that is the model's error.
"""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from psycopg_pool import AsyncConnectionPool

from controlplane.auth.sigv4 import Key, verify
from controlplane.core import clock
from controlplane.core.errors import ModelError, ServiceUnavailable, ValidationError
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
from controlplane.gateway.settings import Settings
from controlplane.routing.policies import InFlight, choose_target, choose_variant
from controlplane.routing.table import Route, Target, VariantRoute
from controlplane.routing.upstream import (
    BrokenResponse,
    ConnectFailed,
    TimedOut,
    Timeouts,
    UpstreamClient,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
)
from controlplane.wire.doors import SERVICE, runtime_params

QUOTED_BYTES = 1024
"""Bytes of the container's words that a ModelError quotes; the message holds 2,048 characters at most."""

ERROR_BODY_BYTES = 64 * 1024
"""Bytes of a failed answer that are read at all."""

_TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for each "
    "container in Amazon CloudWatch, resolve the issue, and try again."
)

_TO_CONTAINER = {
    "ContentType": b"content-type",
    "Accept": b"accept",
    "CustomAttributes": b"x-amzn-sagemaker-custom-attributes",
    "InferenceId": b"x-amzn-sagemaker-inference-id",
}
"""Members that the container sees; every other request header stays behind."""


@dataclass
class Invoker:
    """Everything a call needs."""

    settings: Settings
    directory: Directory
    upstream: UpstreamClient
    in_flight: InFlight
    pool: AsyncConnectionPool
    draw: random.Random = field(default_factory=random.Random)

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpoint request; raises ApiError before the first byte of the answer."""
        limit = self.settings.payload_limit_bytes
        too_large = ValidationError(f"Request body is larger than the allowed {limit} bytes.")
        body, digest = await request.body(limit, too_large)
        key = authenticate(request, digest, self.directory, self.settings.region)
        params = runtime_params("InvokeEndpoint", endpoint_name, dict(request.headers), body)
        route = await find_route(self.directory, self.pool, key, endpoint_name)
        if route.async_inference is not None:
            raise wrong_inference_type(endpoint_name)
        variant = choose_variant(route, params.get("TargetVariant"), self.draw)
        await request.unless_gone(self._carry(request, route, variant, params, body))

    async def _carry(
        self, request: Request, route: Route, variant: VariantRoute, params: dict[str, Any], body: bytes
    ) -> None:
        target = choose_target(variant, self.in_flight.at, self.draw)
        try:
            await self._call(request, route, variant, target, _container_request(params, body))
        except ConnectFailed:
            try:
                other = choose_target(variant, self.in_flight.at, self.draw, avoid=[target])
                await self._call(request, route, variant, other, _container_request(params, body))
            except (ConnectFailed, ServiceUnavailable) as error:
                raise self._model_error(route, 0, "The container could not be reached.") from error

    async def _call(
        self, request: Request, route: Route, variant: VariantRoute, target: Target, call: UpstreamRequest
    ) -> None:
        timeouts = Timeouts(response=self.settings.invocation_timeout_seconds)
        with self.in_flight.call(target.instance_id):
            try:
                answer = await self.upstream.send(target.address, call, timeouts)
            except TimedOut as error:
                raise self._model_error(route, 0, _TIMED_OUT) from error
            except BrokenResponse as error:
                raise self._model_error(route, 0, f"The container's answer cannot be read: {error}.") from error
            try:
                if not 200 <= answer.status < 300:
                    raise await self._refused(route, answer)
                await self._answer(request, route, variant, answer)
            finally:
                answer.close()

    async def _answer(self, request: Request, route: Route, variant: VariantRoute, answer: UpstreamResponse) -> None:
        """Hand the answer on; its first piece is waited for before the status goes out, so an early end is an error."""
        pieces = answer.chunks()
        try:
            first = await anext(pieces, b"")
        except UpstreamError as error:
            raise self._model_error(route, 0, f"The container's answer broke off: {error}.") from error
        headers = [
            (b"content-type", answer.header(b"content-type") or b"application/octet-stream"),
            (b"x-amzn-invoked-production-variant", variant.name.encode()),
            (b"x-amzn-requestid", request.request_id.encode()),
        ]
        for name in (b"x-amzn-sagemaker-custom-attributes", b"content-length"):
            value = answer.header(name)
            if value is not None:
                headers.append((name, value))
        await request.stream(answer.status, headers, _after(first, pieces))

    async def _refused(self, route: Route, answer: UpstreamResponse) -> ModelError:
        try:
            body = await answer.read(ERROR_BODY_BYTES)
        except UpstreamError:
            body = b""
        return self._model_error(route, answer.status, body.decode("utf-8", "replace"))

    def _model_error(self, route: Route, status: int, text: str) -> ModelError:
        """The error whose message names class, status and container, quotes its words and says where the log is."""
        side = "client" if 400 <= status < 500 else "server"
        quoted = text[:QUOTED_BYTES]
        region, group = self.settings.region, f"/aws/sagemaker/Endpoints/{route.endpoint_name}"
        message = (
            f'Received {side} error ({status}) from primary with message "{quoted}". See '
            f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logEventViewer:group={group} "
            f"in account {route.account_id} for more information."
        )
        stream = f"arn:aws:logs:{region}:{route.account_id}:log-group:{group}"
        extra = {"OriginalStatusCode": status, "OriginalMessage": quoted, "LogStreamArn": stream}
        return ModelError(message, extra)


def authenticate(request: Request, body_sha256: str, directory: Directory, region: str) -> Key:
    """The key that signed the request."""
    return verify(request.signed(body_sha256), directory.find_key, region=region, service=SERVICE, now=clock.now())


async def find_route(directory: Directory, pool: AsyncConnectionPool, key: Key, endpoint_name: str) -> Route:
    """The caller's endpoint of that name, if it serves; asked of the database before it is said not to."""
    route = directory.table.find(key.account_id, endpoint_name)
    if route is None or not route.is_serving:
        await directory.look_up(key.account_id, endpoint_name, pool)
        route = directory.table.find(key.account_id, endpoint_name)
    if route is None or not route.is_serving:
        raise ValidationError(f"Endpoint {endpoint_name} of account {key.account_id} not found.")
    return route


def wrong_inference_type(endpoint_name: str) -> ValidationError:
    """Synchronous call of an asynchronous endpoint, or the other way round."""
    return ValidationError(f"Endpoint {endpoint_name} does not support this inference type.")


def _container_request(params: dict[str, Any], body: bytes) -> UpstreamRequest:
    headers = [(name, params[member].encode("latin-1")) for member, name in _TO_CONTAINER.items() if member in params]
    return UpstreamRequest(b"POST", b"/invocations", headers, body)


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk
