"""The doors: from a request as it arrived to the answer as it goes out.

`json11` is the control plane's door (`POST /` with X-Amz-Target); `runtime_params` reads the rest-json requests of the
runtime, whose bodies the gateway handles itself. Both end in the same parse and validate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from controlplane.auth.sigv4 import Key, SignedRequest, body_hash, verify
from controlplane.core.errors import (
    ApiError,
    RequestTooLarge,
    UnknownOperationException,
    ValidationError,
    ValidationException,
)
from controlplane.wire import overlay, parse, serialize, validate
from controlplane.wire.errors import JSON_1_1, WireResponse, hide, json11_error
from controlplane.wire.model import load_service
from controlplane.wire.registry import Context, handler_of

SERVICE = "sagemaker"
"""The signing name of both the control plane and the runtime."""

TARGET_PREFIX = "SageMaker."

BODY_LIMIT_BYTES = 4 * 1024 * 1024
"""The largest control-plane body; 100 variables of 1,024 characters for 15 containers stay well below."""


@dataclass(frozen=True)
class WireRequest:
    """A request as it arrived: header names in lower case, values latin-1 text."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True)
class Surroundings:
    """What a door needs from outside."""

    find_key: Callable[[str], Key | None]
    region: str
    now: datetime
    request_id: str
    instance_types: validate.InstanceTypes


def json11(request: WireRequest, around: Surroundings) -> WireResponse:
    """Answer one control-plane request; never raises."""
    try:
        return _answer(request, around)
    except ApiError as error:
        return json11_error(error, around.request_id)
    except Exception as fault:  # noqa: BLE001 - the last door: logged by `hide`, answered with an id
        return json11_error(hide(fault, around.request_id), around.request_id)


def _answer(request: WireRequest, around: Surroundings) -> WireResponse:
    if len(request.body) > BODY_LIMIT_BYTES:
        raise RequestTooLarge(f"The body may hold {BODY_LIMIT_BYTES} bytes.")
    signed = SignedRequest(request.method, request.path, request.query, request.headers, body_hash(request.body))
    key = verify(signed, around.find_key, region=around.region, service=SERVICE, now=around.now)
    name = _operation_name(signed)
    handler = handler_of(name)
    model = load_service(SERVICE).operation_model(name)
    params = parse.parse_json(request.body, model.input_shape)
    validate.check(model.input_shape, params, ValidationException, around.instance_types)
    context = Context(key.account_id, key.access_key_id, around.region, around.request_id, around.now)
    body = serialize.to_json(model.output_shape, handler(context, params))
    return WireResponse(200, (("Content-Type", JSON_1_1), ("x-amzn-RequestId", around.request_id)), body)


def _operation_name(request: SignedRequest) -> str:
    """The operation that X-Amz-Target names, to the letter."""
    target = request.header("x-amz-target")
    if target is None:
        raise UnknownOperationException("The header X-Amz-Target is missing.")
    if not target.startswith(TARGET_PREFIX):
        raise UnknownOperationException(f"X-Amz-Target must start with {TARGET_PREFIX!r}.")
    return target.removeprefix(TARGET_PREFIX)


def runtime_params(operation: str, endpoint_name: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The checked members of a runtime request, whose body is one of them as it is; raises ValidationError.

    `endpoint_name` is the path's segment as it came. The size of the body is the gateway's matter: its cap is a setting.
    """
    shape = load_service("sagemaker-runtime").operation_model(operation).input_shape
    params = parse.parse_headers(shape, {"EndpointName": unquote(endpoint_name)}, headers) | {"Body": body}
    if "InferenceComponentName" in params:
        raise ValidationError(overlay.COMPONENT_REFUSED)
    validate.check(shape, params, ValidationError, frozenset)
    return params
