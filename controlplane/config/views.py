"""The API's door as a Django view: it brings the pure door of `wire` together with settings, keys and catalogue."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.defaults import page_not_found, server_error

from controlplane.auth.authenticate import find_key
from controlplane.catalog.instance_types import known_instance_types
from controlplane.config.middleware import CONSOLE_PREFIX, REST_PREFIX
from controlplane.core import clock
from controlplane.core.errors import ApiError, InternalFailure, RequestTooLarge, UnknownOperationException
from controlplane.core.ids import new_uuid
from controlplane.wire.doors import BODY_LIMIT_BYTES, Surroundings, WireRequest, json11, query, rpc_cbor
from controlplane.wire.errors import WireResponse, json11_error, resource_error
from controlplane.wire.query import FORM


@csrf_exempt
def aws_door(request: HttpRequest, **path: str) -> HttpResponse:
    """`POST /`: every operation of the control plane, named by X-Amz-Target or, from CloudWatch's old clients, in a form;
    CBOR has a path for each. Requests are authenticated by signature.
    """
    request_id = _request_id(request)
    if request.method != "POST":
        message = "Only POST is answered here. The console is at /admin/, the paths of the REST interface at /api/v1/docs/."
        return _respond(json11_error(UnknownOperationException(message), request_id))
    length = request.META.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > BODY_LIMIT_BYTES:
        error = RequestTooLarge(f"The body may hold {BODY_LIMIT_BYTES} bytes.")
        return _respond(json11_error(error, request_id))
    around = Surroundings(find_key, settings.HEADRACE.region, clock.now(), request_id, known_instance_types)
    if path:
        return _respond(rpc_cbor(_wire_request(request), around))
    if (request.META.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower() == FORM:
        return _respond(query(_wire_request(request), around))
    return _respond(json11(_wire_request(request), around))


def unknown_path(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Any other path: an error in the API's own form, but for the console, whose users read pages."""
    if request.path.startswith(CONSOLE_PREFIX):
        return page_not_found(request, exception)
    error = UnknownOperationException(f"There is nothing at {request.path!r}.")
    error.status = 404
    return _respond(_form_of(request)(error, _request_id(request)))


def fault(request: HttpRequest) -> HttpResponse:
    """A fault outside of the door: an error in the API's own form, but for the console, whose users read pages."""
    if request.path.startswith(CONSOLE_PREFIX):
        return server_error(request)
    error = InternalFailure("An internal error occurred; the log has it.")
    return _respond(_form_of(request)(error, _request_id(request)))


def _form_of(request: HttpRequest) -> Callable[[ApiError, str], WireResponse]:
    """The form that errors have at the path."""
    return resource_error if request.path.startswith(REST_PREFIX) else json11_error


def _request_id(request: HttpRequest) -> str:
    """The id under which the gateway knows the request, else a new one."""
    return request.META.get("HTTP_HEADRACE_REQUEST_ID") or str(new_uuid())


def _wire_request(request: HttpRequest) -> WireRequest:
    names = (
        (name.removeprefix("HTTP_").replace("_", "-").lower(), value)
        for name, value in request.META.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    )
    return WireRequest(request.method or "", request.path, request.META.get("QUERY_STRING", ""), tuple(names), request.body)


def _respond(answer: WireResponse) -> HttpResponse:
    response = HttpResponse(answer.body, status=answer.status)
    for name, value in answer.headers:
        response[name] = value
    response["Content-Length"] = str(len(answer.body))
    return response
