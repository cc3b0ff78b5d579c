"""Schemas made of shapes: they say what the server does, no more and no less."""

import copy
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from controlplane.config.operations import MODULES
from controlplane.core.errors import ApiError, ValidationException
from controlplane.rest.openapi_examples import REQUESTS
from controlplane.rest.routes import ROUTES, Route
from controlplane.wire import overlay, resource
from controlplane.wire.model import load_service
from controlplane.wire.schema import Schemas
from controlplane.wire.serialize import dump
from controlplane.wire.validate import check

assert MODULES, "importing them registered the operations"

TYPES = frozenset({"ml.g5.2xlarge", "ml.g4dn.xlarge"})
BY_NAME = {route.operation: route for route in ROUTES}
WITH_BODY = [route for route in ROUTES if route.has_body]
OTHERS: list[Any] = ["", "-", "a", "x" * 300, "2026-01-31T12:00:00Z", 0, -1, 1, 10**12, 0.5, True, None, [], {}, ["a"]]
"""What stands in for a leaf: of the wrong type, too long, too small, not of the enum, or good after all."""


def shape_of(route: Route) -> Any:
    return load_service(route.service.model).operation_model(route.operation).input_shape


def validator_of(route: Route) -> jsonschema_rs.Validator:
    """What the document says of a body."""
    schemas = Schemas(lambda structure, member: "")
    root = schemas.request(shape_of(route), without=route.in_path)
    document = {**root, "components": {"schemas": schemas.components}}
    return jsonschema_rs.validator_for(document, validate_formats=True)


def is_taken(route: Route, body: Any) -> bool:
    """What the server does with a body, as far as its shapes decide."""
    shape = shape_of(route)
    try:
        params = resource.from_body(dump(body), shape, dict.fromkeys(route.in_path, "a-name"))
        check(shape, params, ValidationException, lambda: TYPES)
    except ApiError:
        return False
    return True


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document: everything in it, itself left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (key,)
        yield from ((key, *rest) for rest in places(item))


def changed(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The body with something else in one place; `...` takes away what stands there."""
    found = copy.deepcopy(body)
    inner = found
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return found


EXAMPLES = [(operation, name, body) for operation, named in REQUESTS.items() for name, (_, body) in named.items()]


@pytest.mark.parametrize(("operation", "name", "body"), EXAMPLES, ids=[f"{each[0]}-{each[1]}" for each in EXAMPLES])
def test_document_and_server_judge_every_change_of_an_example_alike(operation: str, name: str, body: Any) -> None:
    route = BY_NAME[operation]
    validator = validator_of(route)
    assert validator.is_valid(body)
    assert is_taken(route, body)
    for place in places(body):
        for value in [..., *OTHERS]:
            candidate = changed(body, place, value)
            if place[-1] == "InstanceType" and isinstance(value, str):
                continue  # the catalogue's matter, which a document cannot know
            assert validator.is_valid(candidate) is is_taken(route, candidate), (place, value)


def test_every_body_has_an_example_or_is_a_small_one() -> None:
    without = {route.operation for route in WITH_BODY} - set(REQUESTS)
    assert without == {"SetAlarmState", "PutMetricData"}


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: route.operation)
def test_a_request_component_has_what_is_honoured_and_nothing_else(route: Route) -> None:
    schemas = Schemas(lambda structure, member: "")
    shape = shape_of(route)
    name = schemas.request(shape, without=route.in_path)["$ref"].rpartition("/")[2]
    honoured = overlay.honoured_members(shape.name)
    known = set(shape.members) if honoured is overlay.EVERYTHING else honoured
    assert set(schemas.components[name]["properties"]) == known - route.in_path


def component(operation: str, name: str) -> dict[str, Any]:
    schemas = Schemas(lambda structure, member: "")
    route = BY_NAME[operation]
    schemas.request(shape_of(route), without=route.in_path)
    return schemas.components[name]["properties"]


def test_the_limits_are_those_that_are_enforced() -> None:
    config = component("CreateEndpointConfig", "CreateEndpointConfigRequest")
    assert config["EndpointConfigName"]["maxLength"] == 63
    assert (config["ProductionVariants"]["minItems"], config["ProductionVariants"]["maxItems"]) == (1, 10)
    assert config["Tags"]["maxItems"] == 50
    variant = component("CreateEndpointConfig", "ProductionVariantRequest")
    assert (variant["InstancePools"]["minItems"], variant["InstancePools"]["maxItems"]) == (1, 5)
    timeout = variant["VariantInstanceProvisionTimeoutInSeconds"]
    assert (timeout["minimum"], timeout["maximum"]) == (300, 3600)
    priority = component("CreateEndpointConfig", "InstancePoolRequest")["Priority"]
    assert (priority["minimum"], priority["maximum"]) == (1, 5)


def test_enums_are_named_after_their_shapes_and_hold_what_is_supported() -> None:
    schemas = Schemas(lambda structure, member: "")
    schemas.request(shape_of(BY_NAME["PutMetricAlarm"]))
    schemas.request(shape_of(BY_NAME["CreateModel"]))
    assert schemas.components["ContainerMode"] == {"type": "string", "enum": ["SingleModel"]}
    assert set(schemas.components["ComparisonOperator"]["enum"]) == overlay.HONOURED_VALUES["ComparisonOperator"]


def test_one_name_is_one_shape_over_all_operations() -> None:
    """Generated clients have one class for each name."""
    found: dict[str, Any] = {}
    for route in ROUTES:
        schemas = Schemas(lambda structure, member: "")
        model = load_service(route.service.model).operation_model(route.operation)
        if route.has_body:
            schemas.request(model.input_shape, without=route.in_path)
        if model.output_shape is not None:
            schemas.answer(model.output_shape)
        for name, schema in schemas.components.items():
            assert found.setdefault(name, schema) == schema, name


def test_no_sentence_of_the_models_documentation_comes_along() -> None:
    schemas = Schemas(lambda structure, member: "")
    schemas.request(shape_of(BY_NAME["CreateEndpointConfig"]))
    assert "description" not in str(schemas.components)


def test_words_stand_beside_members_but_not_beside_references() -> None:
    schemas = Schemas(lambda structure, member: f"{structure}.{member}")
    schemas.request(shape_of(BY_NAME["CreateEndpoint"]))
    members = schemas.components["CreateEndpointRequest"]["properties"]
    assert members["EndpointName"]["description"] == "CreateEndpointInput.EndpointName"
    assert members["DeploymentConfig"] == {"$ref": "#/components/schemas/DeploymentConfigRequest"}
