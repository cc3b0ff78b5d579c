"""Shapes as OpenAPI 3.0 schemas: from the same models, bounds and overlay that requests are checked by.

    request(shape)     components named `...Request`: honoured members, bounds, patterns, enums of what is supported
    answer(shape)      what may come back: `told_members`, types and enums; no bounds, which would bind what is stored
    parameter(shape)   a member in a path or in a query string

Structures and enums become components, named after their shapes, so that generated clients have the API's own words.
Times are ISO 8601 text here (see `resource`). Descriptions come from whoever writes the document, never from the models.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.model import Shape, StructureShape

from controlplane.wire import overlay
from controlplane.wire.patterns import portable
from controlplane.wire.told import told_members
from controlplane.wire.validate import INTEGER_LIMITS

Schema = dict[str, Any]

Describe = Callable[[str, str], str]
"""The name of a structure and of a member -> words about it, or nothing."""

REFERENCE = "#/components/schemas/"

_SIZES = {"string": ("minLength", "maxLength"), "list": ("minItems", "maxItems"), "map": ("minProperties", "maxProperties")}
_SCALARS: dict[str, Schema] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "format": "int32"},
    "long": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "float"},
    "double": {"type": "number", "format": "double"},
    "timestamp": {"type": "string", "format": "date-time"},
    "blob": {"type": "string", "format": "byte"},
}
PAIR = frozenset({"Name", "Value"})
"""The members of structures that a query string can carry, as `Name=Value`."""


@dataclass
class Schemas:
    """Turns shapes into schemas, collecting `components` (by name) on the way.

    `needed` are members that handlers insist on though their structure does not, by the structure's name.
    """

    describe: Describe
    needed: Mapping[str, Collection[str]] = field(default_factory=dict)
    components: dict[str, Schema] = field(default_factory=dict)

    def request(self, shape: StructureShape, *, without: frozenset[str] = frozenset()) -> Schema:
        """A reference to what a body may hold, but for the members that travel elsewhere."""
        return self._structure(shape, is_request=True, without=without)

    def answer(self, shape: StructureShape) -> Schema:
        """A reference to what an answer holds."""
        return self._structure(shape, is_request=False)

    def parameter(self, shape: Any) -> Schema:
        """A member as text: a list is its items one after the other, a pair in it `Name=Value`, or `Name` alone."""
        if shape.type_name == "list" and shape.member.type_name == "structure":
            is_open = "Value" not in shape.member.required_members
            return {"type": "array", "items": _pair(is_open=is_open), **_size(shape)}
        return self._schema(shape, is_request=True)

    def _schema(self, shape: Any, *, is_request: bool) -> Schema:
        if shape.type_name == "structure":
            return self._structure(shape, is_request=is_request)
        if shape.type_name == "string":
            return self._string(shape, is_request=is_request)
        bounds = _size(shape) if is_request else {}
        if shape.type_name == "list":
            return {"type": "array", "items": self._schema(shape.member, is_request=is_request), **bounds}
        if shape.type_name == "map":
            values = self._schema(shape.value, is_request=is_request)
            return {"type": "object", "additionalProperties": values, **bounds}
        return {**_SCALARS[shape.type_name], **(_range(shape) if is_request else {})}

    def _string(self, shape: Any, *, is_request: bool) -> Schema:
        if shape.name == overlay.INSTANCE_TYPE_SHAPE:
            # What is legal is the installation's catalogue, which grows without a new document.
            return {"type": "string", "example": "ml.g5.2xlarge", **({"minLength": 1} if is_request else {})}
        if shape.enum:
            honoured = overlay.HONOURED_VALUES.get(shape.name, shape.enum)
            self.components[shape.name] = {"type": "string", "enum": [each for each in shape.enum if each in honoured]}
            return {"$ref": f"{REFERENCE}{shape.name}"}
        pattern = portable(shape.metadata["pattern"]) if is_request and "pattern" in shape.metadata else None
        bounds = _size(shape) if is_request else {}
        return {"type": "string", **bounds, **({"pattern": pattern} if pattern else {})}

    def _structure(self, shape: StructureShape, *, is_request: bool, without: frozenset[str] = frozenset()) -> Schema:
        name = _name(shape.name, is_request=is_request)
        if name not in self.components:
            self.components[name] = {}  # holds the place, should the structure hold itself
            self.components[name] = self._members(shape, is_request=is_request, without=without)
        return {"$ref": f"{REFERENCE}{name}"}

    def _members(self, shape: StructureShape, *, is_request: bool, without: frozenset[str]) -> Schema:
        known = overlay.honoured_members(shape.name) if is_request else told_members(shape.name)
        members = {
            name: member
            for name, member in shape.members.items()
            if (known is overlay.EVERYTHING or name in known) and name not in without
        }
        properties = {
            name: self._described(shape.name, name, self._schema(member, is_request=is_request))
            for name, member in members.items()
        }
        needed = {*shape.required_members, *(self.needed.get(shape.name, ()) if is_request else ())}
        required = [name for name in members if name in needed]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def _described(self, structure: str, member: str, schema: Schema) -> Schema:
        """With words, unless it is a reference, beside which OpenAPI 3.0 reads nothing."""
        words = self.describe(structure, member)
        return {**schema, "description": words} if words and "$ref" not in schema else schema


def _name(shape_name: str, *, is_request: bool) -> str:
    """`CreateModelInput` -> `CreateModelRequest`, `CreateModelOutput` -> `CreateModelResponse`, `Tag` -> `TagRequest`."""
    if is_request:
        return f"{shape_name.removesuffix('Input')}Request"
    return f"{shape_name.removesuffix('Output')}Response" if shape_name.endswith("Output") else shape_name


def _pair(*, is_open: bool) -> Schema:
    rest = "(=.*)?" if is_open else "=.*"
    return {"type": "string", "pattern": f"^[^=]+{rest}$", "example": "EndpointName=echo"}


def _size(shape: Shape) -> Schema:
    """How long the value may be: what `validate` holds it to."""
    if shape.type_name not in _SIZES:
        return {}
    least, most = _SIZES[shape.type_name]
    bounds = {least: shape.metadata.get("min") or None, most: shape.metadata.get("max")}
    return {key: bound for key, bound in bounds.items() if bound is not None}


def _range(shape: Shape) -> Schema:
    """Between which numbers the value may lie; every whole number has bounds, if only those of its width."""
    limit = INTEGER_LIMITS.get(shape.type_name)
    least = shape.metadata.get("min", None if limit is None else -limit - 1)
    most = shape.metadata.get("max", limit)
    return {key: bound for key, bound in (("minimum", least), ("maximum", most)) if bound is not None}
