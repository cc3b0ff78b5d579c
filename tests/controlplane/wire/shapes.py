"""Values made from service models: what a client could send by a shape, whether legal or not."""

from datetime import UTC, datetime
from typing import Any

from botocore.model import Shape
from hypothesis import strategies as st

INTEGERS = st.integers(-(2**40), 2**40)
WHOLE_MILLISECONDS = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)

_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=12),
    "boolean": st.booleans(),
    "integer": INTEGERS,
    "long": INTEGERS,
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "timestamp": WHOLE_MILLISECONDS,
}


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Any value of the shape's types; its limits, patterns and enums play no part."""
    if shape.type_name == "structure":
        return st.fixed_dictionaries({}, optional={name: values(member) for name, member in shape.members.items()})
    if shape.type_name == "list":
        return st.lists(values(shape.member), max_size=2)
    if shape.type_name == "map":
        return st.dictionaries(_LEAVES["string"], values(shape.value), max_size=2)
    return _LEAVES[shape.type_name]


def inner_shapes(shape: Any) -> list[Shape]:
    """The shapes directly inside one."""
    found = [*getattr(shape, "members", {}).values()]
    return found + [getattr(shape, each) for each in ("member", "key", "value") if hasattr(shape, each)]


def all_shapes(root: Shape) -> list[Shape]:
    """The shape and everything inside it, each name once."""
    seen: dict[str, Shape] = {}
    waiting = [root]
    while waiting:
        shape = waiting.pop()
        if shape.name not in seen:
            seen[shape.name] = shape
            waiting += inner_shapes(shape)
    return list(seen.values())
