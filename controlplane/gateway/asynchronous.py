"""InvokeEndpointAsync: checked, given its output location, stored; 202 only after the commit."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.core.errors import ValidationError
from controlplane.core.ids import new_uuid
from controlplane.gateway.admission import admit, serving_route
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
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

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpointAsync request; raises ApiError."""
        too_large = ValidationError(
            f"Body is larger than the {INLINE_LIMIT_BYTES} bytes allowed for an inline request payload."
        )
        key, body = await admit(request, INLINE_LIMIT_BYTES, too_large, self.directory, self.settings.region)
        _check_source(request, body)
        params = runtime_params("InvokeEndpointAsync", endpoint_name, dict(request.headers), body)
        _check_extension(params.get("S3OutputPathExtension", ""))
        try:
            accepted = await self._accept(key, params)
        except EndpointGone:
            # The table was a moment behind: the endpoint of this name is another one now, or none.
            accepted = await self._accept(key, params)
        await request.respond(_answer(accepted, request.request_id))

    async def _accept(self, key: Key, params: dict[str, Any]) -> Accepted:
        route = await serving_route(self.directory, key, params["EndpointName"], is_async=True)
        accepted = _accepted(route, params)
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


def _check_extension(extension: str) -> None:
    """No step out of the output path, and nothing that is a key in one store and an error in another."""
    if any(part in ("", ".", "..") for part in extension.strip("/").split("/")) and extension.strip("/"):
        raise ValidationError(f"S3OutputPathExtension {extension!r} must not hold empty, '.' or '..' segments.")


def _accepted(route: Route, params: dict[str, Any]) -> Accepted:
    """The request as it is stored. Its locations are drawn at random: a caller's InferenceId names nothing."""
    paths, name = cast(AsyncInference, route.async_inference), new_uuid()
    return Accepted(
        id=new_uuid(),
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
        output_location=_location(paths.output_path, params, f"{name}.out", params.get("Filename")),
        failure_location=_location(paths.failure_path, {}, f"{name}-error.out", None),
        body=params["Body"],
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
