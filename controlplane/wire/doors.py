"""The doors: from a request as it arrived to the answer as it goes out.

`json11` is the door of every control plane (`POST /` with X-Amz-Target); `rpc_cbor` and `query` are those of clients that
speak CloudWatch's other protocols. `runtime_params` reads the rest-json requests of the runtime, whose bodies the gateway
handles itself. All end in the same parse and validate.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from controlplane.auth.sigv4 import Key, SignedRequest, body_hash, verify
from controlplane.core.actor import acting
from controlplane.core.errors import (
    ApiError,
    RequestTooLarge,
    SerializationException,
    UnknownOperationException,
    ValidationError,
)
from controlplane.wire import overlay, parse, validate
from controlplane.wire.cbor import CborForm
from controlplane.wire.errors import WireResponse, hide
from controlplane.wire.forms import Form, JsonForm
from controlplane.wire.model import load_service
from controlplane.wire.query import QueryForm, fields
from controlplane.wire.registry import Context, handler_of
from controlplane.wire.services import CLOUDWATCH, SAGEMAKER, Service, by_target

SERVICE = SAGEMAKER.signing_name
"""The signing name of both the control plane and the runtime."""

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
    """Answer one request whose operation X-Amz-Target names (JSON 1.0 or 1.1, by service); never raises."""
    target = _header(request, "x-amz-target")
    service = by_target((target or "").partition(".")[0]) or SAGEMAKER
    return _guarded(request, around, JsonForm(service), lambda: _targeted(target, service))


def rpc_cbor(request: WireRequest, around: Surroundings) -> WireResponse:
    """Answer one request to `/service/NAME/operation/OPERATION` (Smithy RPC v2 with CBOR); never raises."""
    _, _, target, _, name = request.path.split("/", 4)
    service = by_target(target)
    return _guarded(request, around, CborForm(service or SAGEMAKER), lambda: _pathed(service, name))


def query(request: WireRequest, around: Surroundings) -> WireResponse:
    """Answer one form of the query protocol, which only CloudWatch's clients still send; never raises."""
    return _guarded(request, around, QueryForm(CLOUDWATCH), lambda: fields(_unpacked(request)).get("Action", ""))


def _guarded(request: WireRequest, around: Surroundings, form: Form, name: Callable[[], str]) -> WireResponse:
    try:
        return _answer(request, around, form, name)
    except ApiError as error:
        return form.error(error, around.request_id)
    except Exception as fault:  # noqa: BLE001 - the last door: logged by `hide`, answered with an id
        return form.error(hide(fault, around.request_id), around.request_id)


def _answer(request: WireRequest, around: Surroundings, form: Form, named: Callable[[], str]) -> WireResponse:
    """The answer of the operation that `named` names once the signature is known to be good."""
    if len(request.body) > BODY_LIMIT_BYTES:
        raise RequestTooLarge(f"The body may hold {BODY_LIMIT_BYTES} bytes.")
    service = form.service
    signed = SignedRequest(request.method, request.path, request.query, request.headers, body_hash(request.body))
    key = verify(signed, around.find_key, region=around.region, service=service.signing_name, now=around.now)
    name = named()
    handler = handler_of(name, service)
    model = load_service(service.model).operation_model(name)
    params = form.read(_unpacked(request), model.input_shape)
    validate.check(model.input_shape, params, service.violation, around.instance_types)
    context = Context(key.account_id, key.access_key_id, around.region, around.request_id, around.now)
    with acting(f"key {key.access_key_id}"):
        return form.write(model, handler(context, params), around.request_id)


def _header(request: WireRequest, name: str) -> str | None:
    return next((value for key, value in request.headers if key == name), None)


def _targeted(target: str | None, service: Service) -> str:
    """The operation that X-Amz-Target names, to the letter."""
    if target is None:
        raise UnknownOperationException("The header X-Amz-Target is missing.")
    if not target.startswith(f"{service.target}."):
        raise UnknownOperationException(f"X-Amz-Target must start with '{service.target}.'.")
    return target.removeprefix(f"{service.target}.")


def _pathed(service: Service | None, name: str) -> str:
    """The operation that the path names, where its service speaks CBOR."""
    if service is None or not service.speaks_query:
        raise UnknownOperationException("There is no service of this name that speaks CBOR here.")
    return name


def _unpacked(request: WireRequest) -> bytes:
    """The body as its sender wrote it; clients pack large ones. Unpacked it may hold no more than any other."""
    encoding = _header(request, "content-encoding")
    if encoding in (None, "", "identity"):
        return request.body
    if encoding != "gzip":
        raise SerializationException("Content-Encoding must be gzip, if anything.")
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        body = unpacking.decompress(request.body, BODY_LIMIT_BYTES + 1)
    except zlib.error as error:
        raise SerializationException("The body is not valid gzip.") from error
    if len(body) > BODY_LIMIT_BYTES:
        raise RequestTooLarge(f"The body may hold {BODY_LIMIT_BYTES} bytes.")
    if not unpacking.eof:
        raise SerializationException("The body ends in the midst of its gzip.")
    return body


def runtime_headers(operation: str) -> frozenset[str]:
    """The headers, in lower case, in which the members of a runtime request travel."""
    return parse.header_names(load_service("sagemaker-runtime").operation_model(operation).input_shape)


def runtime_params(operation: str, endpoint_name: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The checked members of a runtime request, whose body is one of them as it is; raises ValidationError.

    `endpoint_name` is the path's segment as it came. The size of the body is the gateway's matter: its cap is a setting.
    """
    names = _header_names(operation)
    members = _header_members(operation, endpoint_name, tuple([headers.get(name) for name in names]))
    return {**members, "Body": body}


@lru_cache(maxsize=16)
def _header_names(operation: str) -> tuple[str, ...]:
    return tuple(sorted(runtime_headers(operation)))


@lru_cache(maxsize=256)
def _header_members(operation: str, endpoint_name: str, values: tuple[str | None, ...]) -> dict[str, Any]:
    """The checked members outside the body; kept, since most calls of a client have the same."""
    shape = load_service("sagemaker-runtime").operation_model(operation).input_shape
    headers = {name: value for name, value in zip(_header_names(operation), values, strict=True) if value is not None}
    params = parse.parse_headers(shape, {"EndpointName": unquote(endpoint_name)}, headers)
    if "InferenceComponentName" in params:
        raise ValidationError(overlay.COMPONENT_REFUSED)
    validate.check(shape, {**params, "Body": b""}, ValidationError, frozenset)
    return params
