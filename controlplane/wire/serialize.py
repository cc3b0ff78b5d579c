"""Values to bytes, by shape: timestamps as epoch numbers with milliseconds, absent members left out."""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from botocore.model import StructureShape

Moment = Callable[[datetime], float | str]
"""How a protocol writes a time."""


def to_json(shape: StructureShape | None, answer: Mapping[str, Any]) -> bytes:
    """The body of a JSON 1.1 answer; an operation without an output shape has an empty one."""
    if shape is None:
        return b""
    return dump(document(shape, answer, _epoch))


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dump(document: object) -> bytes:
    """Compact JSON; refuses what JSON cannot say (NaN, infinities)."""
    return _encode(document).encode()


def document(shape: StructureShape, value: Mapping[str, Any], moment: Moment) -> dict[str, Any]:
    """A structure's members with JSON's types; a member that its shape does not have is a fault of ours."""
    unknown = set(value) - set(shape.members)
    if unknown:
        raise AssertionError(f"{shape.name} has no member {', '.join(sorted(unknown))}")
    present = ((name, item) for name, item in value.items() if item is not None)
    return {name: _value(shape.members[name], item, moment) for name, item in present}


def _value(shape: Any, value: Any, moment: Moment) -> Any:
    match shape.type_name:
        case "structure":
            return document(shape, value, moment)
        case "list":
            return [_value(shape.member, item, moment) for item in value]
        case "map":
            return {key: _value(shape.value, item, moment) for key, item in value.items()}
        case "timestamp":
            return moment(value)
        case "blob":
            return base64.b64encode(value).decode()
    return value


def _epoch(moment: datetime) -> float:
    """Seconds with milliseconds; never text, which several clients cannot read.

    Cut, not rounded: a time handed back as CreationTimeAfter must still include its resource, as ...Before exclude it.
    """
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000).timestamp()
