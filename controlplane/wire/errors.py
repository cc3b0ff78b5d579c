"""Errors in the form of the protocol: the code both in the header and in the body, whichever a client looks at."""

import logging
from dataclasses import dataclass

from controlplane.core.errors import ApiError, AuthenticationError, InternalFailure, MethodNotAllowed
from controlplane.wire.serialize import dump

JSON_1_1 = "application/x-amz-json-1.1"
REST_JSON = "application/json"

log = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class WireResponse:
    """What goes back: a status, headers, and a body of bytes."""

    status: int
    headers: Headers
    body: bytes


def json11_error(error: ApiError, request_id: str) -> WireResponse:
    """The control plane's form: `__type` and `message`."""
    body = {"__type": error.code, "message": error.message, **error.extra}
    return WireResponse(error.status, _headers(error, request_id, JSON_1_1), dump(body))


def resource_error(error: ApiError, request_id: str) -> WireResponse:
    """The resource paths' form: the control plane's as plain JSON, with the status of HTTP for who is not known."""
    status = error.runtime_status if isinstance(error, AuthenticationError) else error.status
    body = {"__type": error.code, "message": error.message, **error.extra}
    return WireResponse(status, _headers(error, request_id, REST_JSON), dump(body))


def runtime_error(error: ApiError, request_id: str) -> WireResponse:
    """The runtime's form: the code in the header first, `Message` in the body."""
    status = error.runtime_status if isinstance(error, AuthenticationError) else error.status
    body = {"__type": error.code, "Message": error.message, **error.extra}
    return WireResponse(status, _headers(error, request_id, REST_JSON), dump(body))


def hide(fault: BaseException, request_id: str) -> InternalFailure:
    """The answer to an unexpected fault: an id to look up in the log, and none of the text."""
    log.error("request %s failed", request_id, exc_info=fault)
    return InternalFailure(f"An internal error occurred; the log has it under request id {request_id}.")


def _headers(error: ApiError, request_id: str, content_type: str) -> Headers:
    told = (("Content-Type", content_type), ("x-amzn-ErrorType", error.code), ("x-amzn-RequestId", request_id))
    return (*told, ("Allow", error.allowed)) if isinstance(error, MethodNotAllowed) else told
