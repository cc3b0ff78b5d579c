"""InvokeEndpointAsync: checked, given its output location, stored; 202 only after the commit."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.core.errors import ValidationError
from controlplane.core.ids import new_uuid
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
from controlplane.gateway.invoke import authenticate, find_route, wrong_inference_type
from controlplane.gateway.settings import Settings
from controlplane.invocations.accept import Accepted, Acceptor, EndpointGone
from controlplane.routing.table import AsyncInference, Route
from controlplane.wire.doors import runtime_params
from controlplane.wire.errors import REST_JSON, WireResponse
from controlplane.wire.serialize import dump

INLINE_LIMIT_BYTES = 128_000
"""Decimal, not 128 KiB."""

TIME_TO_LIVE_SECONDS = 21_600
TIMEOUT_SECONDS = 900

INPUT_LOCATION = "x-amzn-sagemaker-inputlocation"


@dataclass
class AsyncInvoker:
    """Everything an accept needs."""

    settings: Settings
    directory: Directory
    acceptor: Acceptor
    pool: AsyncConnectionPool

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpointAsync request; raises ApiError."""
        too_large = ValidationError(
            f"Body is larger than the {INLINE_LIMIT_BYTES} bytes allowed for an inline request payload."
        )
        body, digest = await request.body(INLINE_LIMIT_BYTES, too_large)
        key = authenticate(request, digest, self.directory, self.settings.region)
        _check_source(request, body)
        params = runtime_params("InvokeEndpointAsync", endpoint_name, dict(request.headers), body)
        try:
            accepted = await self._accept(key, endpoint_name, params, body)
        except EndpointGone:
            # The table was a moment behind: the endpoint of this name is another one now, or none.
            accepted = await self._accept(key, endpoint_name, params, body)
        await request.respond(_answer(accepted, request.request_id))

    async def _accept(self, key: Key, endpoint_name: str, params: dict[str, Any], body: bytes) -> Accepted:
        route = await find_route(self.directory, self.pool, key, endpoint_name)
        if route.async_inference is None:
            raise wrong_inference_type(endpoint_name)
        accepted = _accepted(route, route.async_inference, params, body)
        try:
            await self.acceptor.accept(accepted)
        except EndpointGone:
            self.directory.forget(UUID(route.endpoint_id))
            raise
        return accepted


def _check_source(request: Request, body: bytes) -> None:
    """Exactly one of Body and InputLocation; an empty body cannot be told from none."""
    has_location = request.header(INPUT_LOCATION) is not None
    if has_location and body:
        raise ValidationError("Specify exactly one of Body and InputLocation, not both.")
    if not has_location and not body:
        raise ValidationError("Specify exactly one of Body and InputLocation; the request has neither.")


def _accepted(route: Route, asynchronous: AsyncInference, params: dict[str, Any], body: bytes) -> Accepted:
    invocation_id = new_uuid()
    name = str(new_uuid())
    return Accepted(
        id=invocation_id,
        account_id=route.account_id,
        endpoint_id=UUID(route.endpoint_id),
        endpoint_name=route.endpoint_name,
        inference_id=params.get("InferenceId") or str(new_uuid()),
        content_type=params.get("ContentType", ""),
        accept=params.get("Accept", ""),
        custom_attributes=params.get("CustomAttributes", ""),
        accepted_at=clock.now(),
        time_to_live=timedelta(seconds=params.get("RequestTTLSeconds", TIME_TO_LIVE_SECONDS)),
        timeout_seconds=params.get("InvocationTimeoutSeconds", TIMEOUT_SECONDS),
        output_location=_location(asynchronous.output_path, params, f"{name}.out", params.get("Filename")),
        failure_location=_location(asynchronous.failure_path, {}, f"{name}-error.out", None),
        body=body,
    )


def _location(path: str, params: dict[str, Any], name: str, filename: str | None) -> str:
    """`path`, the extension if any, and the file's name; empty where there is no path."""
    if not path:
        return ""
    parts = [path.rstrip("/"), params.get("S3OutputPathExtension", "").strip("/"), filename or name]
    return "/".join(part for part in parts if part)


def _answer(accepted: Accepted, request_id: str) -> WireResponse:
    headers = [
        ("Content-Type", REST_JSON),
        ("x-amzn-RequestId", request_id),
        ("X-Amzn-SageMaker-OutputLocation", accepted.output_location),
    ]
    if accepted.failure_location:
        headers.append(("X-Amzn-SageMaker-FailureLocation", accepted.failure_location))
    return WireResponse(202, tuple(headers), dump({"InferenceId": accepted.inference_id}))
