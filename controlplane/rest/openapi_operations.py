"""The OpenAPI document of the routes: each operation made from its shapes, its place and its words. No framework here."""

from dataclasses import dataclass, field
from typing import Any

from botocore.model import OperationModel

from controlplane.metrics import rules
from controlplane.rest import openapi_errors
from controlplane.rest.openapi_examples import ANSWERS, REQUESTS
from controlplane.rest.openapi_prose import OPERATIONS, describe
from controlplane.rest.routes import Route
from controlplane.wire.model import load_service
from controlplane.wire.schema import Schema, Schemas

JSON = "application/json"

NEEDED = {"PutMetricAlarmInput": rules.NEEDED}
"""What handlers insist on beyond the shapes."""


@dataclass(frozen=True)
class Described:
    """An operation as OpenAPI tells it, and the components that it refers to, by name."""

    operation: dict[str, Any]
    components: dict[str, Schema] = field(default_factory=dict)


def described(route: Route) -> Described:
    """The operation at a route. Who may call it is added by whoever knows."""
    model = load_service(route.service.model).operation_model(route.operation)
    schemas = Schemas(describe, NEEDED)
    summary, description = OPERATIONS[route.operation]
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": summary,
        "description": description,
        "tags": [route.tag],
        "parameters": _parameters(route, model, schemas),
        "requestBody": _body(route, model, schemas),
        "responses": {
            **_success(route, model, schemas),
            **openapi_errors.of_resource(has_body=route.has_body),
        },
    }
    return Described({key: value for key, value in operation.items() if value}, schemas.components)


def _parameters(route: Route, model: OperationModel, schemas: Schemas) -> list[dict[str, Any]]:
    """The members in the path, then those in the query string, the needed ones first."""
    shape = model.input_shape
    in_path = [_parameter(shape, name, "path", schemas) for name in shape.members if name in route.in_path]
    if route.has_body:
        return in_path
    rest = [_parameter(shape, name, "query", schemas) for name in shape.members if name not in route.in_path]
    return in_path + sorted(rest, key=lambda parameter: not parameter["required"])


def _parameter(shape: Any, name: str, place: str, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.parameter(shape.members[name])
    is_list = {"style": "form", "explode": True} if schema.get("type") == "array" else {}
    words = {"description": text} if (text := describe(shape.name, name)) else {}
    required = place == "path" or name in shape.required_members
    return {"name": name, "in": place, "required": required, **words, **is_list, "schema": schema}


def _body(route: Route, model: OperationModel, schemas: Schemas) -> dict[str, Any] | None:
    if not route.has_body:
        return None
    media: dict[str, Any] = {"schema": schemas.request(model.input_shape, without=route.in_path)}
    if examples := REQUESTS.get(route.operation):
        media["examples"] = {name: {"summary": told, "value": value} for name, (told, value) in examples.items()}
    return {"required": True, "content": {JSON: media}}


def _success(route: Route, model: OperationModel, schemas: Schemas) -> dict[str, Any]:
    has_answer = model.output_shape is not None and bool(model.output_shape.members)
    status = str(route.status(has_answer=has_answer))
    if not has_answer:
        return {status: {"description": "Done."}}
    media: dict[str, Any] = {"schema": schemas.answer(model.output_shape)}
    if route.operation in ANSWERS:
        media["example"] = ANSWERS[route.operation]
    response: dict[str, Any] = {"description": "Done." if route.creates else "What was asked for."}
    if route.creates:
        response["headers"] = {"Location": {"description": "The path of what was made.", "schema": {"type": "string"}}}
    return {status: {**response, "content": {JSON: media}}}
