"""The one error tree. Each class knows its wire code, its HTTP status and whose fault it is.

    ApiError
      ValidationException 400            control plane: a request that cannot be honoured, a missing or existing resource
      ResourceLimitExceeded 400          a quota
      ResourceInUse 400 · ResourceNotFound 400
      ThrottlingException 400            asked too often; clients retry
      AccessDeniedException 400
      SerializationException 400         the body cannot be read
      UnknownOperationException 400      no such operation here
        MethodNotAllowed 405             there is one, by another method
      RequestTooLarge 413                the body is over its cap; refused before it is parsed
      RequestTimeout 408                 the body did not arrive in time; clients retry
      AuthenticationError
        MissingAuthenticationToken · IncompleteSignature · UnrecognizedClient · InvalidSignature · ExpiredToken
      RuntimeFailure                     the data plane's own
        ValidationError 400 · ModelError 424 · ModelNotReadyException 429 · ServiceUnavailable 503
        InternalDependencyException 530
      MetricsFailure                     metrics and alarms; codes of the query protocol
        InvalidParameterValue · InvalidParameterCombination · MissingParameter · InvalidNextToken · LimitExceeded 400
        AlarmNotFound 404
      InternalFailure 500                a fault of Headrace; the text stays in the log

The control plane says `ValidationException`, the runtime `ValidationError`: clients tell them apart.
"""

from collections.abc import Mapping


class ApiError(Exception):
    """An answer other than success. `extra` holds members beside the message."""

    code = "InternalFailure"
    status = 500

    def __init__(self, message: str, extra: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.extra = dict(extra or {})

    @property
    def is_client_fault(self) -> bool:
        """Whether the caller has to change something."""
        return self.status < 500


class ValidationException(ApiError):
    code = "ValidationException"
    status = 400


class ResourceLimitExceeded(ApiError):
    code = "ResourceLimitExceeded"
    status = 400


class ResourceInUse(ApiError):
    code = "ResourceInUse"
    status = 400


class ResourceNotFound(ApiError):
    code = "ResourceNotFound"
    status = 400


class ThrottlingException(ApiError):
    code = "ThrottlingException"
    status = 400


class AccessDeniedException(ApiError):
    code = "AccessDeniedException"
    status = 400


class SerializationException(ApiError):
    code = "SerializationException"
    status = 400


class UnknownOperationException(ApiError):
    code = "UnknownOperationException"
    status = 400


class MethodNotAllowed(UnknownOperationException):
    """`allowed` is the method that is served at the path; HTTP wants it told in a header."""

    status = 405

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not allowed here; use {allowed}.")
        self.allowed = allowed


class RequestTooLarge(ApiError):
    code = "RequestEntityTooLargeException"
    status = 413


class RequestTimeout(ApiError):
    code = "RequestTimeout"
    status = 408


class AuthenticationError(ApiError):
    """The caller is not who it says. The JSON 1.1 door answers 400, the runtime paths `runtime_status`."""

    status = 400
    runtime_status = 403


class MissingAuthenticationToken(AuthenticationError):
    code = "MissingAuthenticationTokenException"


class IncompleteSignature(AuthenticationError):
    code = "IncompleteSignatureException"


class UnrecognizedClient(AuthenticationError):
    code = "UnrecognizedClientException"


class InvalidSignature(AuthenticationError):
    code = "InvalidSignatureException"


class ExpiredToken(AuthenticationError):
    code = "ExpiredTokenException"


class RuntimeFailure(ApiError):
    """An error of the data plane."""


class ValidationError(RuntimeFailure):
    code = "ValidationError"
    status = 400


class ModelError(RuntimeFailure):
    code = "ModelError"
    status = 424


class ModelNotReadyException(RuntimeFailure):
    code = "ModelNotReadyException"
    status = 429


class ServiceUnavailable(RuntimeFailure):
    code = "ServiceUnavailable"
    status = 503


class InternalDependencyException(RuntimeFailure):
    code = "InternalDependencyException"
    status = 530


class MetricsFailure(ApiError):
    """An error of metrics and alarms."""

    status = 400


class InvalidParameterValue(MetricsFailure):
    code = "InvalidParameterValue"


class InvalidParameterCombination(MetricsFailure):
    code = "InvalidParameterCombination"


class MissingParameter(MetricsFailure):
    code = "MissingParameter"


class InvalidNextToken(MetricsFailure):
    code = "InvalidNextToken"


class LimitExceeded(MetricsFailure):
    code = "LimitExceeded"


class AlarmNotFound(MetricsFailure):
    code = "ResourceNotFound"
    status = 404


class InternalFailure(ApiError):
    code = "InternalFailure"
    status = 500


def not_found(kind: str, arn: str) -> ValidationException:
    """A missing resource; `kind` as in `endpoint configuration`. Missing is a ValidationException: waiters rely on it."""
    return ValidationException(f'Could not find {kind} "{arn}".')


def already_exists(kind: str, arn: str) -> ValidationException:
    """A name that is taken."""
    return ValidationException(f'Cannot create already existing {kind} "{arn}".')


def in_progress(kind: str, arn: str) -> ValidationException:
    """A change of something that is still changing."""
    return ValidationException(f'Cannot update in-progress {kind} "{arn}".')
