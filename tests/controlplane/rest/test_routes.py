"""The table of routes: complete, unambiguous, and saying of every member where it travels."""

import re
from collections import Counter

import pytest

from controlplane.config.operations import MODULES
from controlplane.rest.routes import ROUTES, Route, by_path
from controlplane.wire.model import load_service
from controlplane.wire.registry import handler_of, operation_names
from controlplane.wire.schema import PAIR
from controlplane.wire.services import CLOUDWATCH, SAGEMAKER

assert MODULES, "importing them registered the operations"

EVERY = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
SCALARS = {"string", "boolean", "integer", "long", "float", "double", "timestamp"}


@pytest.mark.parametrize("service", [SAGEMAKER, CLOUDWATCH], ids=lambda service: service.model)
def test_every_operation_with_a_handler_has_one_route_and_no_other_has_any(service) -> None:
    routed = Counter(route.operation for route in ROUTES if route.service is service)
    handlers = {name: handler_of(name, service) for name in operation_names(service)}
    # Other tests register operations of their own.
    assert set(routed) == {name for name, handler in handlers.items() if handler.__module__.startswith("controlplane.")}
    assert set(routed.values()) == {1}


def test_a_method_of_a_path_is_one_operation() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert sum(len(group) for _, group in by_path()) == len(ROUTES)


def test_no_path_is_matched_by_another_s_pattern() -> None:
    for route in ROUTES:
        sample = re.sub(r"\{\w+\}", "a-name", route.path)[1:]
        assert [pattern for pattern, _ in by_path() if re.search(pattern, sample)] == [route.pattern]


@EVERY
def test_what_the_path_names_is_a_required_member(route: Route) -> None:
    shape = load_service(route.service.model).operation_model(route.operation).input_shape
    assert route.in_path <= set(shape.required_members)


@EVERY
def test_what_travels_in_a_query_string_can_be_told_in_one(route: Route) -> None:
    if route.has_body:
        return
    shape = load_service(route.service.model).operation_model(route.operation).input_shape
    for name, member in shape.members.items():
        told = member.member if member.type_name == "list" else member
        if told.type_name == "structure":
            assert set(told.members) == PAIR, name
        else:
            assert told.type_name in SCALARS, name


@EVERY
def test_reads_are_what_their_names_say(route: Route) -> None:
    assert route.is_read is route.operation.startswith(("List", "Describe", "Get"))
    assert route.method != "GET" or route.is_read


@EVERY
def test_what_is_made_is_described_under_the_path_that_its_location_gives(route: Route) -> None:
    if route.creates:
        assert f"{route.path}/{{{route.creates}}}" in {other.path for other in ROUTES if other.method == "GET"}
