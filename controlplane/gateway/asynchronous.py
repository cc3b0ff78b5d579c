"""InvokeEndpointAsync: checked, given its output location, stored; 202 only after the commit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from controlplane.auth.sigv4 import SignedRequest, verify
from controlplane.core import clock
from controlplane.core.errors import ApiError, ValidationError
from controlplane.core.ids import UuidSource
from controlplane.core.locations import KEY_LIMIT_BYTES, fits, key_bytes
from controlplane.gateway.admission import Caller, admit, not_found, serving_route, told_once
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
from controlplane.gateway.settings import Settings
from controlplane.invocations.accept import Acceptor, EndpointGone
from controlplane.invocations.accepted import Accepted
from controlplane.invocations.inputs import refusal
from controlplane.routing.table import AsyncInference, Route
from controlplane.wire.doors import SERVICE, runtime_params
from controlplane.wire.errors import REST_JSON, WireResponse
from controlplane.wire.serialize import dump

INLINE_LIMIT_BYTES = 128_000
"""Decimal, not 128 KiB."""

TIME_TO_LIVE_SECONDS = 21_600
TIMEOUT_SECONDS = 900

INPUT_LOCATION = "x-amzn-sagemaker-inputlocation"


@dataclass
class AsyncInvoker:
    """Everything an accept needs.

    `time` is the database's: when a request was accepted and when it expires is judged by workers, on other hosts. What a
    caller has signed is judged by this host's own.
    """

    settings: Settings
    directory: Directory
    acceptor: Acceptor
    draw: UuidSource = field(default_factory=UuidSource)
    time: clock.CarriedClock = field(default_factory=clock.CarriedClock)

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one InvokeEndpointAsync request; raises ApiError."""
        too_large = ValidationError(
            f"Body is larger than the {INLINE_LIMIT_BYTES} bytes allowed for an inline request payload."
        )
        key, body = await admit(request, INLINE_LIMIT_BYTES, too_large, self.directory, self.settings.region)
        params = self._checked(endpoint_name, told_once(request.headers), body)
        try:
            accepted = await self._accept(key, params)
        except EndpointGone:
            # The table was a moment behind: the endpoint of this name is another one now, or none.
            accepted = await self._accept_anew(key, params)
        await request.respond(answer_of(accepted, request.request_id))

    def at_once(self, signed: SignedRequest, endpoint_name: str, body: bytes) -> Accepted | None:
        """What `invoke` would store, where all that it takes is in memory; None where `invoke` must wait or refuse."""
        if len(body) > INLINE_LIMIT_BYTES or not signed.is_single:
            return None
        try:
            region, find_key = self.settings.region, self.directory.keys.find
            key = verify(signed, find_key, region=region, service=SERVICE, now=clock.now())
            params = self._checked(endpoint_name, signed.first, body)
        except ApiError:
            return None
        route = self.directory.table.find(key.account_id, endpoint_name)
        if route is None or not route.is_serving or route.async_inference is None:
            return None
        accepted = _accepted(route, params, self.draw, self.time.now())
        return accepted if fits(accepted.output_location) else None

    async def _accept(self, caller: Caller, params: dict[str, Any]) -> Accepted:
        route = await serving_route(self.directory, caller, params["EndpointName"], is_async=True)
        accepted = _accepted(route, params, self.draw, self.time.now())
        _check_place(accepted.output_location)
        try:
            await self.acceptor.accept(accepted)
        except EndpointGone:
            self.directory.forget(UUID(route.endpoint_id))
            raise
        return accepted

    async def _accept_anew(self, caller: Caller, params: dict[str, Any]) -> Accepted:
        """As `_accept`; where the endpoint is being deleted, and nobody has withdrawn its route yet, there is none."""
        try:
            return await self._accept(caller, params)
        except EndpointGone as error:
            raise not_found(caller, params["EndpointName"]) from error

    def _checked(self, endpoint_name: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        """The members of the request; raises ValidationError."""
        _check_source(headers, body)
        params = runtime_params("InvokeEndpointAsync", endpoint_name, headers, body)
        if "S3OutputPathExtension" in params:
            _check_extension(params["S3OutputPathExtension"])
        if "InputLocation" in params and (refused := refusal(params["InputLocation"], self.settings.input_hosts)):
            raise ValidationError(refused)
        return params


def _check_source(headers: Mapping[str, str], body: bytes) -> None:
    """Exactly one of Body and InputLocation; an empty one cannot be told from none."""
    has_location = bool(headers.get(INPUT_LOCATION))
    if has_location and body:
        raise ValidationError("Specify exactly one of Body and InputLocation, not both.")
    if not has_location and not body:
        raise ValidationError("Specify exactly one of Body and InputLocation; the request has neither.")


def _check_extension(extension: str) -> None:
    """No step out of the output path, and nothing that is a key in one store and an error in another."""
    if any(part in ("", ".", "..") for part in extension.strip("/").split("/")) and extension.strip("/"):
        raise ValidationError(f"S3OutputPathExtension {extension!r} must not hold empty, '.' or '..' segments.")


def _check_place(location: str) -> None:
    """No place where no store keeps anything: the model would be asked in vain."""
    if not fits(location):
        raise ValidationError(
            f"The answer's place under S3OutputPath has a key of {key_bytes(location)} bytes; "
            f"a key may hold {KEY_LIMIT_BYTES}. Shorten S3OutputPathExtension or Filename."
        )


def _accepted(route: Route, params: dict[str, Any], draw: UuidSource, now: datetime) -> Accepted:
    """The request as it is stored. Its locations have its id, drawn at random: a caller's InferenceId names nothing."""
    paths, key = cast(AsyncInference, route.async_inference), draw.text()
    folder = params.get("S3OutputPathExtension", "").strip("/")
    return Accepted(
        id=key,
        account_id=route.account_id,
        endpoint_id=route.endpoint_id,
        endpoint_name=route.endpoint_name,
        inference_id=params.get("InferenceId") or draw.text(),
        content_type=params.get("ContentType", ""),
        accept=params.get("Accept", ""),
        custom_attributes=params.get("CustomAttributes", ""),
        accepted_at=now,
        expires_at=now + timedelta(seconds=params.get("RequestTTLSeconds", TIME_TO_LIVE_SECONDS)),
        timeout_seconds=params.get("InvocationTimeoutSeconds", TIMEOUT_SECONDS),
        output_location=_location(paths.output_path, folder, params.get("Filename") or f"{key}.out"),
        failure_location=_location(paths.failure_path, "", f"{key}-error.out"),
        body=params["Body"],
        input_location=params.get("InputLocation", ""),
        delivery=paths.delivery,
    )


def _location(path: str, folder: str, file: str) -> str:
    """`path`, the folder if any, and the file; empty where there is no path."""
    if not path:
        return ""
    start = path.rstrip("/")
    return f"{start}/{folder}/{file}" if folder else f"{start}/{file}"


def answer_of(accepted: Accepted, request_id: str) -> WireResponse:
    """The 202 of a request that is stored."""
    headers = [
        ("Content-Type", REST_JSON),
        ("x-amzn-RequestId", request_id),
        ("X-Amzn-SageMaker-OutputLocation", accepted.output_location),
    ]
    if accepted.failure_location:
        headers.append(("X-Amzn-SageMaker-FailureLocation", accepted.failure_location))
    return WireResponse(202, tuple(headers), b'{"InferenceId":%b}' % dump(accepted.inference_id))
