"""The OpenAPI document of the invocation paths. The gateway serves them at the root, on the same host.

Bodies are whatever the container takes and gives: bytes, here. Which type the container is told is the request's own
Content-Type; the paths whose body is always bytes on the wire have a header for it.
"""

from typing import Any

from botocore.model import OperationModel

from controlplane.rest import openapi_errors
from controlplane.rest.openapi_operations import JSON, Described
from controlplane.rest.openapi_prose import OPERATIONS, describe
from controlplane.wire.model import load_service
from controlplane.wire.overlay import honoured_members
from controlplane.wire.schema import Schema, Schemas

TAG = "invocations"
BYTES = "application/octet-stream"
EVENT_STREAM = "application/vnd.amazon.eventstream"
_BINARY: Schema = {"type": "string", "format": "binary"}
_NOT_PARAMETERS = ("Content-Type", "Accept")
"""Headers that OpenAPI tells by media types, not as parameters."""

_SECURITY: list[dict[str, list[str]]] = [{"sigv4": []}, {"token": []}]

Paths = dict[str, dict[str, Any]]


def paths() -> tuple[Paths, dict[str, Schema]]:
    """Every invocation path, with the components that they refer to."""
    found: Paths = {}
    components: dict[str, Schema] = {}
    for name in ("InvokeEndpoint", "InvokeEndpointAsync", "InvokeEndpointWithResponseStream"):
        model = load_service("sagemaker-runtime").operation_model(name)
        told = _invocation(model)
        found[model.http["requestUri"]] = {"post": told.operation}
        components |= told.components
    return {**found, **_chat_paths()}, components


def _invocation(model: OperationModel) -> Described:
    schemas = Schemas(describe)
    answer = {"InvokeEndpoint": _whole, "InvokeEndpointAsync": _accepted}.get(model.name, _stream)
    errors = openapi_errors.of_accept() if model.name == "InvokeEndpointAsync" else openapi_errors.of_call()
    operation = _operation(model.name, _parameters(model, schemas), {**answer(model), **errors})
    # On the wire an empty body cannot be told from none, and the container may well be asked with an empty one.
    operation["requestBody"] = {"required": False, "content": {BYTES: {"schema": _BINARY}}}
    return Described(operation, schemas.components)


def _operation(name: str, parameters: list[dict[str, Any]], responses: dict[str, Any]) -> dict[str, Any]:
    summary, description = OPERATIONS[name]
    return {
        "operationId": name,
        "summary": summary,
        "description": description,
        "tags": [TAG],
        "parameters": parameters,
        "security": _SECURITY,
        "responses": responses,
    }


def _parameters(model: OperationModel, schemas: Schemas) -> list[dict[str, Any]]:
    shape = model.input_shape
    honoured = honoured_members(shape.name)
    return [
        _parameter(shape, name, member, schemas)
        for name, member in shape.members.items()
        if name in honoured and _wire_name(member) not in ("", *_NOT_PARAMETERS)
    ]


def _parameter(shape: Any, name: str, member: Any, schemas: Schemas) -> dict[str, Any]:
    place = "path" if member.serialization["location"] == "uri" else "header"
    words = {"description": text} if (text := describe(shape.name, name)) else {}
    schema = schemas.parameter(member)
    if place == "header" and "pattern" in schema:
        # An empty header counts as none.
        schema = {**schema, "pattern": f"^$|{schema['pattern']}"}
        schema.pop("minLength", None)
    return {"name": _wire_name(member), "in": place, "required": place == "path", **words, "schema": schema}


def _wire_name(member: Any) -> str:
    """Under which name the member travels outside the body; nothing for the body itself."""
    return str(member.serialization.get("name", ""))


def _headers(model: OperationModel) -> dict[str, Any]:
    """The answer's headers that are members of it."""
    shape = model.output_shape
    outside = {
        name: _wire_name(member)
        for name, member in shape.members.items()
        if member.serialization.get("location") == "header" and _wire_name(member) not in _NOT_PARAMETERS
    }
    return {
        wire_name: {"schema": {"type": "string"}, **({"description": text} if (text := describe(shape.name, name)) else {})}
        for name, wire_name in outside.items()
    }


def _whole(model: OperationModel) -> dict[str, Any]:
    content = {BYTES: {"schema": _BINARY}, "*/*": {"schema": _BINARY}}
    return {"200": {"description": "The container's answer.", "headers": _headers(model), "content": content}}


def _stream(model: OperationModel) -> dict[str, Any]:
    # Bytes are what they are to a client that does not know AWS's own media type.
    content = {media_type: {"schema": _BINARY} for media_type in (EVENT_STREAM, BYTES)}
    return {"200": {"description": "The container's answer, in frames.", "headers": _headers(model), "content": content}}


def _accepted(model: OperationModel) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"InferenceId": {"type": "string", "description": "The caller's, or one made up."}},
        "required": ["InferenceId"],
    }
    return {"202": {"description": "Queued.", "headers": _headers(model), "content": {JSON: {"schema": schema}}}}


_ENDPOINT = {"name": "EndpointName", "in": "path", "required": True, "schema": {"type": "string"}}
_ANYTHING: Schema = {"type": "object", "additionalProperties": True}
_MESSAGE: Schema = {
    "type": "object",
    "properties": {"role": {"type": "string"}, "content": {}},
    "required": ["role"],
    "additionalProperties": True,
}
_CHAT: Schema = {
    "type": "object",
    "properties": {
        "model": {"type": "string", "description": "As the container knows it."},
        "messages": {"type": "array", "items": _MESSAGE, "minItems": 1},
        "stream": {"type": "boolean", "default": False},
    },
    "required": ["messages"],
    "additionalProperties": True,
}
_COMPLETION: Schema = {
    "type": "object",
    "properties": {"model": {"type": "string"}, "prompt": {}, "stream": {"type": "boolean", "default": False}},
    "required": ["prompt"],
    "additionalProperties": True,
}
_CHAT_EXAMPLE = {"model": "default", "messages": [{"role": "user", "content": "Hello"}]}


def _chat_paths() -> Paths:
    base = "/endpoints/{EndpointName}/openai/v1"
    return {
        f"{base}/chat/completions": {"post": _asked("CreateChatCompletion", {"schema": _CHAT, "example": _CHAT_EXAMPLE})},
        f"{base}/completions": {"post": _asked("CreateCompletion", {"schema": _COMPLETION})},
        f"{base}/models": {"get": _chat_operation("ListServedModels", {JSON: {"schema": _ANYTHING}})},
    }


def _asked(name: str, media: dict[str, Any]) -> dict[str, Any]:
    # OpenAPI 3.0 has no words for a stream of events; each holds a chunk of the answer, as OpenAI's do.
    content = {JSON: {"schema": _ANYTHING}, "text/event-stream": {"schema": {}}}
    return {**_chat_operation(name, content), "requestBody": {"required": True, "content": {JSON: media}}}


def _chat_operation(name: str, content: dict[str, Any]) -> dict[str, Any]:
    answer = {"200": {"description": "The container's answer.", "content": content}}
    return {**_operation(name, [_ENDPOINT], {**answer, **openapi_errors.of_chat()}), "security": [{"token": []}]}
