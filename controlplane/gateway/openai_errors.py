"""Errors in OpenAI's envelope: `{"error": {"message", "type", "param", "code"}}`, with statuses that its clients act on.

    401   nothing that says who calls     403        a token that is not good, or none but a signature
    400   the request, the endpoint       404, 405   nothing is served there
    408   the body came too late          413        the body is too large
    424   the container gave no answer: it may have run, so that nobody may repeat it
    503   no instance now, or none that can be reached: it was asked nothing; with Retry-After
    The rest is the container's own status.

OpenAI's clients repeat 408, 409, 429 and everything from 500 on by themselves. Source: contract, data plane 2.3.
"""

import re
from typing import cast

from controlplane.core.errors import (
    ApiError,
    AuthenticationError,
    MethodNotAllowed,
    MissingAuthenticationToken,
    ModelError,
    ServiceUnavailable,
    UnknownOperationException,
)
from controlplane.wire.errors import REST_JSON, WireResponse
from controlplane.wire.serialize import dump

RETRY_SECONDS = 2
_RETRY_AFTER = "RetryAfter"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def answer(error: ApiError, request_id: str) -> WireResponse:
    """The error as it goes out."""
    status = _status(error)
    is_servers = status >= 500 or isinstance(error, ModelError)
    document = {
        "message": error.message,
        "type": "server_error" if is_servers else "invalid_request_error",
        "param": None,
        "code": _WORD.sub("_", error.code.removesuffix("Exception")).lower(),
    }
    headers = [
        ("Content-Type", REST_JSON),
        ("x-amzn-ErrorType", error.code),
        ("x-amzn-RequestId", request_id),
        ("x-request-id", request_id),
    ]
    retry = error.extra.get(_RETRY_AFTER, RETRY_SECONDS if isinstance(error, ServiceUnavailable) else None)
    if retry is not None:
        headers.append(("Retry-After", str(retry)))
    if isinstance(error, MethodNotAllowed):
        headers.append(("Allow", error.allowed))
    return WireResponse(status, tuple(headers), dump({"error": document}))


def with_retry(error: ApiError, retry_after: str) -> ApiError:
    """The error with the container's own word on when to come again."""
    error.extra[_RETRY_AFTER] = retry_after
    return error


def not_found(message: str) -> ApiError:
    """The error for a path at which nothing is served."""
    error = UnknownOperationException(message)
    error.status = 404
    return error


def _status(error: ApiError) -> int:
    if isinstance(error, MissingAuthenticationToken):
        return 401
    if isinstance(error, AuthenticationError):
        return error.runtime_status
    if isinstance(error, ModelError):
        status = cast(int, error.extra["OriginalStatusCode"])
        return status if 400 <= status <= 599 else error.status
    return error.status
