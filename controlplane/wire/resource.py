"""The REST door's form: members in the path, the query string and a JSON body; times as ISO 8601 text, not numbers.

A time is text with its offset, since that is what OpenAPI's `date-time` means and what generated clients read and write;
the AWS door keeps the numbers its SDKs expect. For the same reason a null is refused here: the document allows none.
Members that the model does not know are ignored and all else is checked as at the AWS door, by the same code.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from botocore.model import StructureShape

from controlplane.core.errors import SerializationException
from controlplane.wire import parse, serialize
from controlplane.wire.schema import PAIR

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")


def from_query(query: Mapping[str, Sequence[str]], shape: StructureShape | None, path: frozenset[str]) -> dict[str, Any]:
    """The members that a query string names, each name with all of its texts; those that the path has are not read here."""
    members = {} if shape is None else shape.members
    named = {name: texts for name, texts in query.items() if texts and name in members and name not in path}
    return parse.parse_document({name: _texts(members[name], texts, name) for name, texts in named.items()}, shape)


def from_body(body: bytes, shape: StructureShape | None, path: Mapping[str, str]) -> dict[str, Any]:
    """The members of a JSON body; one that the path has too may only say the same."""
    document = parse.load_object(body)
    if shape is None:
        return {}
    for name, value in path.items():
        if document.setdefault(name, value) != value:
            raise SerializationException(f"{name} is given by the path, and differently in the body.")
    return parse.parse_document(_typed(shape, document, ""), shape)


def to_document(shape: StructureShape | None, answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer's members as JSON can say them; None where there is nothing to say."""
    if shape is None or not shape.members:
        return None
    return serialize.document(shape, answer, iso)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, with milliseconds; cut as at the AWS door, for the same reason."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _texts(shape: Any, texts: Sequence[str], name: str) -> Any:
    if shape.type_name == "list":
        return [_text(shape.member, text, name) for text in texts]
    if len(texts) > 1:
        raise SerializationException(f"{name} is given more than once.")
    return _text(shape, texts[0], name)


def _text(shape: Any, text: str, name: str) -> Any:
    """One text of a query string as its shape has it; `parse` looks at the types that are text anyway."""
    if shape.type_name == "structure" and set(shape.members) == PAIR:
        key, has_value, value = text.partition("=")
        return {"Name": key, "Value": value} if has_value else {"Name": key}
    reader = _READERS.get(shape.type_name)
    return text if reader is None else reader(text, name)


def _whole(text: str, name: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise SerializationException(f"{name} must be a whole number.")
    return int(text)


def _number(text: str, name: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise SerializationException(f"{name} must be a finite number.")
    return float(text)


def _truth(text: str, name: str) -> bool:
    if text not in ("true", "false"):
        raise SerializationException(f"{name} must be true or false.")
    return text == "true"


def _moment(value: object, name: str) -> datetime:
    wanted = SerializationException(f"{name} must be a time in ISO 8601 with its offset, such as 2026-01-31T12:00:00Z.")
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise wanted
    try:
        # In UTC, since the database reads no offset beyond 16 hours, and ISO 8601 has them up to 24.
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise wanted from error  # a thirteenth month; a year that is none in UTC


_READERS: dict[str, Callable[[str, str], Any]] = {
    "integer": _whole,
    "long": _whole,
    "float": _number,
    "double": _number,
    "boolean": _truth,
    "timestamp": _moment,
}


def _typed(shape: Any, value: object, path: str) -> Any:
    """A body's value with its times read and without a null; what else is wrong with it is for `parse` to tell."""
    if value is None:
        raise SerializationException(f"{path} must not be null; leave it out instead.")
    if shape.type_name == "structure" and isinstance(value, dict):
        known = shape.members
        inside = f"{path}." if path else ""
        return {name: _typed(known[name], item, f"{inside}{name}") for name, item in value.items() if name in known}
    if shape.type_name == "list" and isinstance(value, list):
        return [_typed(shape.member, item, f"{path}[{place}]") for place, item in enumerate(value)]
    if shape.type_name == "map" and isinstance(value, dict):
        return {key: _typed(shape.value, item, f"{path}.{key[:64]}") for key, item in value.items()}
    return _moment(value, path) if shape.type_name == "timestamp" else value
