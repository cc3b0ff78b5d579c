"""Errors in the OpenAPI document: the form that each door answers in, every code, and who answers which status."""

from collections.abc import Iterator
from typing import Any

from controlplane.core.errors import ApiError

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}


def codes() -> list[str]:
    """Every code of the error tree."""
    return sorted({kind.code for kind in _tree(ApiError)})


def _tree(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _tree(each)


def components() -> dict[str, Schema]:
    """The bodies of errors: `ResourceError` under `/api/v1/`, `InvocationError` of calls, `OpenAIError` of the chat paths.

    None is called Error, which hides a class of JavaScript's own in clients.
    """
    code = {"$ref": "#/components/schemas/ErrorCode"}
    message = {**_TEXT, "description": "What went wrong, in words; of a request that breaks rules, every one of them."}
    about_code = {"allOf": [code], "description": "The error's code, also in the header x-amzn-ErrorType."}
    return {
        "ErrorCode": {"type": "string", "enum": codes()},
        "ResourceError": {
            "type": "object",
            "properties": {"__type": about_code, "message": message},
            "required": ["__type", "message"],
        },
        "InvocationError": {
            "type": "object",
            "properties": {
                "__type": about_code,
                "Message": message,
                "OriginalStatusCode": {
                    "type": "integer",
                    "description": "A ModelError's: what the container answered; 0 where it gave no answer.",
                },
                "OriginalMessage": {**_TEXT, "description": "A ModelError's: what the container said."},
                "LogStreamArn": {**_TEXT, "description": "A ModelError's: where its log is."},
            },
            "required": ["__type", "Message"],
        },
        "OpenAIError": {
            "type": "object",
            "properties": {
                "error": {
                    "type": "object",
                    "properties": {
                        "message": _TEXT,
                        "type": {"type": "string", "enum": ["invalid_request_error", "server_error"]},
                        "param": {**_TEXT, "nullable": True},
                        "code": _TEXT,
                    },
                    "required": ["message", "type", "param", "code"],
                }
            },
            "required": ["error"],
        },
    }


_COMMON = {
    400: "The request is not one that can be honoured: its values, what it names, or a limit.",
    403: "No credential, one that is not good, or one that may not do this.",
    431: "The head of the request, its query among it, is over its cap.",
    500: "A fault of Headrace; the log has it under the request's id.",
    503: "Headrace is starting or restarting, or its database is away. Try again in a moment.",
}
_RESOURCES = {
    **_COMMON,
    401: "The token is not known, or its time is over.",
    404: "There is nothing at this path, or nothing of this name.",
    406: "Accept names nothing that is answered here.",
}
_BODIES = {
    408: "The body did not arrive in time.",
    413: "The body is over its cap.",
}
_JSON_BODIES = {**_BODIES, 415: "The body is not JSON by its Content-Type."}
_CALLS = {
    **_COMMON,
    **_BODIES,
    424: "The container answered with an error, or not at all: it may have run, so that nobody repeats it unasked.",
    429: "The endpoint has no instance that is ready.",
    530: "Something that the call depends on has failed.",
}


def of_resource(*, has_body: bool) -> dict[str, Schema]:
    """The responses other than success of an operation under `/api/v1/`."""
    return _responses({**_RESOURCES, **(_JSON_BODIES if has_body else {})}, "ResourceError")


def of_accept() -> dict[str, Schema]:
    """Those of an asynchronous invocation, which touches no container."""
    return _responses({**_COMMON, **_BODIES}, "InvocationError")


def of_call() -> dict[str, Schema]:
    """Those of a call that a container answers."""
    return _responses(_CALLS, "InvocationError")


def of_chat() -> dict[str, Schema]:
    """Those of the OpenAI-style paths; a container's own status, whatever it is, comes in the same form."""
    told = {**_COMMON, **_BODIES, 401: "No credential.", 404: "There is nothing at this path.", 424: _CALLS[424]}
    return _responses(told, "OpenAIError")


def _responses(told: dict[int, str], component: str) -> dict[str, Schema]:
    body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{component}"}}}
    return {str(status): {"description": told[status], "content": body} for status in sorted(told)}
