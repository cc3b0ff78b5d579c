"""drf-spectacular's part in the OpenAPI document: it walks the paths, this tells it what stands there.

The routes' operations come from `openapi_operations`, Headrace's own from their serializers, and `complete` adds what no
view has: the invocation paths, which the gateway serves, and every error that an operation can answer.
"""

import re
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from rest_framework.serializers import BaseSerializer

from controlplane.rest import openapi_errors, openapi_runtime
from controlplane.rest.openapi_enums import name_enums
from controlplane.rest.openapi_operations import described
from controlplane.rest.openapi_prose import DESCRIPTION, TAG_OF, TAGS
from controlplane.rest.routes import ROUTES

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")

NAME_MEMBER = "{EndpointName}"


class Schema(AutoSchema):
    """The schema of Headrace's own views, from their serializers."""

    def get_serializer_name(self, serializer: BaseSerializer, direction: str) -> str:
        """Requests are named `...Request` by the library, whatever their serializer is called."""
        name: str = super().get_serializer_name(serializer, direction)
        return name.removesuffix("Request") if direction == "request" else name

    def get_summary(self) -> str:
        """A title made of the operation's name: ListDeadLetters -> List dead letters."""
        return _WORD.sub(" ", self.get_operation_id()).capitalize()


class ResourceSchema(AutoSchema):
    """The schema of a view whose `routes` say what its methods do."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> dict[str, Any]:
        self.registry = registry
        told = described(self.view.routes[method.upper()])
        for name, schema in told.components.items():
            registry.register_on_missing(
                ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, schema=schema, object=name)
            )
        return {**told.operation, "security": self.get_auth()}


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """drf-spectacular's last hook: what is to be said of the whole document."""
    runtime, components = openapi_runtime.paths()
    name_enums(result)
    _close_bodies(result)
    schemas = {**result["components"]["schemas"], **openapi_errors.components(), **components}
    result["components"]["schemas"] = dict(sorted(schemas.items()))
    result["info"]["description"] = DESCRIPTION
    result["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    resources = {_renamed(path): operations for path, operations in result["paths"].items()}
    for path, operations in resources.items():
        for method, operation in operations.items():
            operations[method] = _completed(path, operation)
    result["paths"] = resources | runtime
    return result


def _close_bodies(result: dict[str, Any]) -> None:
    """Say that a body of Headrace's own resources holds nothing else: `members.checked_body` refuses what it does not know.

    The routes ignore what even the service models do not know, as the AWS door does.
    """
    theirs = {route.operation for route in ROUTES}
    for operation in (each for operations in result["paths"].values() for each in operations.values()):
        if "requestBody" in operation and operation["operationId"] not in theirs:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            result["components"]["schemas"][reference.rpartition("/")[2]]["additionalProperties"] = False


def _completed(path: str, operation: dict[str, Any]) -> dict[str, Any]:
    """The operation with every status that it can answer, instead of a word about the rest that generators cannot read."""
    successes = {status: answer for status, answer in operation["responses"].items() if status < "4"}
    told = openapi_errors.of_resource(has_body="requestBody" in operation)
    completed = {**operation, "responses": {**successes, **told}}
    completed["tags"] = [TAG_OF.get(tag, tag) for tag in operation["tags"]]
    if NAME_MEMBER in path:
        completed["parameters"] = [_under(NAME_MEMBER[1:-1], each) for each in operation["parameters"]]
    return completed


def _renamed(path: str) -> str:
    """One placeholder for an endpoint's name, whatever the view calls it."""
    return path.replace("/endpoints/{name}", f"/endpoints/{NAME_MEMBER}")


def _under(name: str, parameter: dict[str, Any]) -> dict[str, Any]:
    is_it = (parameter["in"], parameter["name"]) == ("path", "name")
    return {**parameter, "name": name} if is_it else parameter
