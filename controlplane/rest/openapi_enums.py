"""Names for the enums of Headrace's own resources, so that generated clients have one type for each, always the same.

drf-spectacular would make names up from the members' names, and rename one enum when another comes under the same; and it
tells of a blank as a second enum beside the first, which generators of typed languages do not read. Here an enum that may
be blank is one of its own, `...OrNone`.
"""

from collections.abc import Iterator
from typing import Any

from drf_spectacular.drainage import warn

from controlplane.auth.roles import Role
from controlplane.catalog.prices import PriceSource
from controlplane.core.offerings import MARKETS, Standing
from controlplane.fleet.ladder import State
from controlplane.fleet.states import InstanceStage, Leave
from controlplane.invocations.models import FailureKind, InvocationState
from controlplane.orphans.states import OrphanState, OrphanWish

Schema = dict[str, Any]

NAMES: dict[str, tuple[str, ...]] = {
    "AsyncRequestStatus": tuple(InvocationState.values),
    "AsyncFailureKind": tuple(FailureKind.values),
    "OrderKey": ("Ascending", "Descending"),
    "InstanceStage": tuple(InstanceStage.values),
    "LeaveMode": tuple(Leave.values),
    "Market": MARKETS,
    "RungStanding": tuple(each.value for each in Standing),
    "LadderState": tuple(each.value for each in State),
    "OrphanState": tuple(OrphanState.values),
    "OrphanWish": tuple(OrphanWish.values),
    "PriceSource": tuple(each.value for each in PriceSource),
    "Role": tuple(role.group for role in Role),
}
"""A name in the document -> its values; one that is the API's own (OrderKey) is the same one there."""

_NOTHING = frozenset({"", None})
_BY_VALUES = {frozenset(values) - _NOTHING: name for name, values in NAMES.items()}


def name_enums(result: dict[str, Any]) -> None:
    """Have every enum of the document be a component with a name; one without a name in the table is warned of."""
    components = result["components"]["schemas"]
    named = {name for name, schema in components.items() if "enum" in schema}
    roots = [schema for name, schema in components.items() if name not in named]
    for schema in [found for root in [*roots, result["paths"]] for found in _enums(root)]:
        name = _BY_VALUES.get(frozenset(schema["enum"]) - _NOTHING)
        if name is None:
            warn(f"the enum {schema['enum']} has no name in controlplane.rest.openapi_enums")
        else:
            _refer(schema, name, components)


def _refer(schema: Schema, name: str, components: dict[str, Schema]) -> None:
    """Make an enum a reference to the component of that name; what else it says stays beside the reference."""
    values = [each for each in NAMES[name] if each]
    if "" in schema["enum"]:
        name, values = f"{name}OrNone", [*values, ""]
    components.setdefault(name, {"type": "string", "enum": values})
    reference = {"$ref": f"#/components/schemas/{name}"}
    rest = {key: value for key, value in schema.items() if key not in ("enum", "type", "x-spec-enum-id")}
    schema.clear()
    schema.update({**rest, "allOf": [reference]} if rest else reference)


def _enums(value: Any) -> Iterator[Schema]:
    """Every schema in it that is an enum."""
    if isinstance(value, dict):
        if isinstance(value.get("enum"), list):
            yield value
            return
        for inner in value.values():
            yield from _enums(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _enums(inner)
