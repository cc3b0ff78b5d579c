"""Whether parsed values are legal by their shapes: all violations of a request, in one message.

botocore checks minimums before it sends and nothing else; maximums, patterns and enums are found here, minimums as well.
The sentences have the form that the mirrored service uses (contract 1.3): camel-case path, lists counted from 1.
"""

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

from botocore.model import Shape, StructureShape

from controlplane.core.errors import ApiError
from controlplane.wire import overlay

QUOTED_LIMIT = 256
"""Characters of a refused value that are quoted back."""

MOST_VIOLATIONS = 100
"""Violations that one message names; a body within its cap could break the same rule a million times."""

MESSAGE_LIMIT = 32 * 1024
"""Characters of a message: each wrong instance type lists the hundreds that are right, and there may be fifty of them."""

INTEGER_LIMITS = {"integer": 2**31 - 1, "long": 2**63 - 1}
FLOAT_LIMIT = 3.4028234663852886e38
"""The largest 32-bit float; `float` shapes promise no more."""

InstanceTypes = Callable[[], Collection[str]]


def check(shape: StructureShape | None, params: dict[str, Any], error: type[ApiError], types: InstanceTypes) -> None:
    """Raise one `error` naming all violations in `params`, MOST_VIOLATIONS at most; `types` gives the instance types."""
    if shape is None:
        return
    violations = list(islice(_Walk(types).structure(shape, params, ""), MOST_VIOLATIONS))
    if violations:
        count = len(violations)
        plural = "s" if count > 1 else ""
        raise error(f"{count} validation error{plural} detected: {'; '.join(_within_limit(violations))}")


def _within_limit(violations: list[str]) -> Iterator[str]:
    """The violations as long as they fit into one message, the first one always; then how many more there are."""
    size = 0
    for place, violation in enumerate(violations):
        size += len(violation)
        if place and size > MESSAGE_LIMIT:
            yield f"and {len(violations) - place} more"
            return
        yield violation


class _Walk:
    """One pass over a request's values."""

    def __init__(self, types: InstanceTypes) -> None:
        self._types = types

    def structure(self, shape: StructureShape, value: dict[str, Any], path: str) -> Iterator[str]:
        honoured = overlay.honoured_members(shape.name)
        for name in shape.required_members:
            if name not in value:
                yield f"Value null at '{path}{_camel(name)}' failed to satisfy constraint: Member must not be null"
        for name, item in value.items():
            where = f"{path}{_camel(name)}"
            if honoured is not overlay.EVERYTHING and name not in honoured:
                yield from _not_honoured(name, item, where)
            else:
                yield from self.value(shape.members[name], item, where)

    def value(self, shape: Shape, value: Any, path: str) -> Iterator[str]:
        if shape.type_name == "structure":
            yield from self.structure(shape, value, f"{path}.")
        elif shape.type_name == "list":
            yield from _size(shape, value, len(value), path, "length")
            for place, item in enumerate(_worth_a_look(shape, value), start=1):
                yield from self.value(shape.member, item, f"{path}.{place}.member")
        elif shape.type_name == "map":
            yield from _size(shape, value, len(value), path, "length")
            for key, item in value.items():
                yield from self.value(shape.key, key, f"{path}.key")
                yield from self.value(shape.value, item, f"{path}.value")
        elif shape.type_name == "string":
            yield from self._string(shape, value, path)
        elif shape.type_name in INTEGER_LIMITS or shape.type_name in ("float", "double"):
            yield from _number(shape, value, path)

    def _string(self, shape: Any, value: str, path: str) -> Iterator[str]:
        unstorable = _unstorable(value)
        if unstorable:
            yield _sentence(value, path, unstorable)
            return
        too_long = list(_size(shape, value, len(value), path, "length"))
        yield from too_long
        if shape.enum:
            yield from self._enum(shape, value, path)
        pattern = shape.metadata.get("pattern")
        if pattern and not too_long and not overlay.compiled(pattern).fullmatch(value):
            yield _sentence(value, path, f"Member must satisfy regular expression pattern: {pattern}")

    def _enum(self, shape: Any, value: str, path: str) -> Iterator[str]:
        if shape.name == overlay.INSTANCE_TYPE_SHAPE:
            if value not in self._types():
                yield _sentence(value, path, _one_of(sorted(self._types())))
        elif value not in shape.enum:
            yield _sentence(value, path, _one_of(shape.enum))
        elif value not in overlay.HONOURED_VALUES.get(shape.name, shape.enum):
            supported = sorted(overlay.HONOURED_VALUES[shape.name])
            yield _sentence(value, path, f"Headrace supports {_bracketed(supported)} only")


def _not_honoured(name: str, value: Any, path: str) -> Iterator[str]:
    if name in overlay.NEUTRAL_SWITCHES and value is False:
        return
    yield f"Value at '{path}' failed to satisfy constraint: Member {name} is not supported by Headrace"


def _number(shape: Any, value: float, path: str) -> Iterator[str]:
    limit = INTEGER_LIMITS.get(shape.type_name, FLOAT_LIMIT)
    largest, smallest = shape.metadata.get("max", limit), shape.metadata.get("min", -limit - 1)
    if value > largest:
        yield _sentence(value, path, f"Member must have value less than or equal to {largest}")
    if value < smallest:
        yield _sentence(value, path, f"Member must have value greater than or equal to {smallest}")


def _size(shape: Any, value: Any, size: int, path: str, noun: str) -> Iterator[str]:
    largest, smallest = shape.metadata.get("max"), shape.metadata.get("min")
    if largest is not None and size > largest:
        yield _sentence(value, path, f"Member must have {noun} less than or equal to {largest}")
    if smallest is not None and size < smallest:
        yield _sentence(value, path, f"Member must have {noun} greater than or equal to {smallest}")


def _worth_a_look(shape: Any, value: list[Any]) -> list[Any]:
    """The elements, but for those far beyond the longest legal list: a body holds a million, which take seconds."""
    largest = shape.metadata.get("max")
    return value if largest is None else value[: largest + MOST_VIOLATIONS]


def _unstorable(value: str) -> str:
    """Why no database can keep this text, if so."""
    if "\x00" in value:
        return "Member must not contain the NUL character"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "Member must be valid Unicode text"
    return ""


def _sentence(value: object, path: str, rule: str) -> str:
    text = str(value[:QUOTED_LIMIT] if isinstance(value, list) else value)
    text = text.replace("\x00", "\\u0000").encode("utf-8", "backslashreplace").decode()
    quoted = text if len(text) <= QUOTED_LIMIT else f"{text[:QUOTED_LIMIT]}..."
    return f"Value '{quoted}' at '{path}' failed to satisfy constraint: {rule}"


def _one_of(values: Collection[str]) -> str:
    return f"Member must satisfy enum value set: {_bracketed(values)}"


def _bracketed(values: Collection[str]) -> str:
    return f"[{', '.join(values)}]"


def _camel(name: str) -> str:
    return name[:1].lower() + name[1:]
