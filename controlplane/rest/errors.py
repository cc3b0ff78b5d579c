"""Errors of the REST paths in the wire's form, whoever raised them: this API, DRF or Django."""

from collections.abc import Mapping
from typing import Any

from django.http import Http404
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core.errors import (
    AccessDeniedException,
    ApiError,
    AuthenticationError,
    ExpiredToken,
    SerializationException,
    UnknownOperationException,
    UnrecognizedClient,
    ValidationException,
)
from controlplane.rest.authentication import request_id_of
from controlplane.wire.errors import hide


def answer(fault: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler: the code in the header and in the body, as at the AWS door."""
    request_id = request_id_of(context["request"]._request)
    error = _as_api_error(fault) or hide(fault, request_id)
    body = {"__type": error.code, "message": error.message, **error.extra}
    headers = {"x-amzn-ErrorType": error.code, "x-amzn-RequestId": request_id}
    status = _status_of(error, context["request"])
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="headrace", error="invalid_token"'
    return Response(body, status=status, headers=headers)


def _status_of(error: ApiError, request: Request) -> int:
    """Signatures are refused as AWS refuses them, with 403; bearer tokens as HTTP has it (RFC 6750), with 401."""
    if isinstance(error, AccessDeniedException):
        return 403
    if not isinstance(error, AuthenticationError):
        return error.status
    is_bearer = request.META.get("HTTP_AUTHORIZATION", "").lower().startswith("bearer ")
    return 401 if is_bearer and isinstance(error, UnrecognizedClient | ExpiredToken) else error.runtime_status


def _as_api_error(fault: Exception) -> ApiError | None:
    """The error that says what went wrong; None for what nobody foresaw."""
    if isinstance(fault, ApiError):
        return fault
    if isinstance(fault, exceptions.ParseError):
        return SerializationException("The body is not JSON.")
    if isinstance(fault, exceptions.ValidationError):
        return ValidationException(" ".join(_sentences(fault.detail)))
    if isinstance(fault, Http404 | exceptions.NotFound):
        return _with_status(UnknownOperationException("There is nothing at this path."), 404)
    if isinstance(fault, exceptions.APIException):
        return _with_status(UnknownOperationException(str(fault.detail)), fault.status_code)
    return None


def _with_status(error: ApiError, status: int) -> ApiError:
    error.status = status
    return error


def _sentences(detail: Any, where: str = "") -> list[str]:
    """DRF's nested lists of what is wrong, one sentence each, with the member's path."""
    if isinstance(detail, Mapping):
        return [each for name, inner in detail.items() for each in _sentences(inner, f"{where}.{name}".strip("."))]
    if isinstance(detail, list | tuple):
        return [each for inner in detail for each in _sentences(inner, where)]
    return [f"{where}: {detail}" if where and where != "non_field_errors" else str(detail)]
