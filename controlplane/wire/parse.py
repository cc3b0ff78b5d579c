"""Bytes to values, by shape. What comes out has Python's types; whether the values are legal is `validate`'s question.

Members that the model does not know are dropped, nulls count as absent. Anything that is not of the shape's JSON type is
a SerializationException that names the member; so is what JSON readers understand differently: a name given twice, NaN.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from botocore.model import Shape, StructureShape

from controlplane.core.errors import SerializationException, ValidationError

Path = str


def parse_json(body: bytes, shape: StructureShape | None) -> dict[str, Any]:
    """The members of a JSON 1.1 body; an empty body has none."""
    return parse_document(load_object(body), shape)


def load_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is; an empty body is an empty one."""
    document = _load(body) if body.strip() else {}
    if not isinstance(document, dict):
        raise SerializationException("The body must be a JSON object.")
    return document


def parse_document(document: dict[str, Any], shape: StructureShape | None) -> dict[str, Any]:
    """The members of a request whose body was read into Python's types: those of JSON, and datetime."""
    return _structure(shape, document, "") if shape is not None else {}


def _load(body: bytes) -> object:
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SerializationException("The body is not valid UTF-8.") from error
    except (ValueError, RecursionError) as error:
        # ValueError also stands for an integer of more digits than Python converts.
        raise SerializationException("The body is not valid JSON.") from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names differ; of two values under one name, each reader would pick its own."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise SerializationException("A name is given twice in one JSON object.")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)


def _structure(shape: StructureShape, value: object, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_type(path, "an object")
    inside = f"{path}." if path else ""
    members = shape.members
    given = ((name, found) for name, found in value.items() if found is not None and name in members)
    return {name: _value(members[name], found, f"{inside}{name}") for name, found in given}


def _value(shape: Shape, value: object, path: Path) -> Any:
    return _READERS[shape.type_name](shape, value, path)


def _list(shape: Any, value: object, path: Path) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong_type(path, "a list")
    return [_value(shape.member, item, f"{path}[{place}]") for place, item in enumerate(value)]


def _map(shape: Any, value: object, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong_type(path, "an object")
    return {key: _value(shape.value, item, f"{path}.{key[:64]}") for key, item in value.items() if item is not None}


def _string(shape: Shape, value: object, path: Path) -> str:
    del shape
    if not isinstance(value, str):
        raise _wrong_type(path, "a string")
    return value


def _boolean(shape: Shape, value: object, path: Path) -> bool:
    del shape
    if not isinstance(value, bool):
        raise _wrong_type(path, "true or false")
    return value


def _integer(shape: Shape, value: object, path: Path) -> int:
    del shape
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _wrong_type(path, "a whole number")


def _float(shape: Shape, value: object, path: Path) -> float:
    del shape
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(path, "a finite number")
    try:
        number = float(value)
    except OverflowError as error:
        raise _wrong_type(path, "a finite number") from error
    if not math.isfinite(number):
        raise _wrong_type(path, "a finite number")
    return number


def _timestamp(shape: Shape, value: object, path: Path) -> datetime:
    """Epoch seconds; ISO text is taken too, since some clients send it."""
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return datetime.fromtimestamp(_float(shape, value, path), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise _wrong_type(path, "a time in seconds since 1970") from error


def _blob(shape: Shape, value: object, path: Path) -> bytes:
    try:
        return base64.b64decode(_string(shape, value, path), validate=True)
    except ValueError as error:
        raise _wrong_type(path, "text in base64") from error


_READERS: dict[str, Callable[[Any, object, Path], Any]] = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": _string,
    "boolean": _boolean,
    "integer": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "timestamp": _timestamp,
    "blob": _blob,
}


def _wrong_type(path: Path, wanted: str) -> SerializationException:
    return SerializationException(f"{path or 'The body'} must be {wanted}.")


def parse_headers(shape: StructureShape, uri: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
    """The members of a rest-json request that travel in the path and in headers (names in lower case)."""
    found: dict[str, Any] = {}
    for place in _places(shape):
        text = uri.get(place.wire_name) if place.is_in_path else headers.get(place.key)
        if text is None or (text == "" and not place.is_in_path):
            continue
        found[place.member] = _number_in_header(place.wire_name, text) if place.is_number else _header_text(text)
    return found


def header_names(shape: StructureShape) -> frozenset[str]:
    """The headers, in lower case, in which members of a rest-json request travel."""
    return frozenset(place.key for place in _places(shape) if not place.is_in_path)


class _Place(NamedTuple):
    """Where a member travels."""

    member: str
    wire_name: str
    key: str
    is_in_path: bool
    is_number: bool


@lru_cache(maxsize=64)
def _places(shape: StructureShape) -> tuple[_Place, ...]:
    """The places of the members that travel outside the body; kept, since each call of the runtime asks for them."""
    found = []
    for member, inner in shape.members.items():
        location, name = inner.serialization.get("location"), inner.serialization.get("name", member)
        if location is not None:
            found.append(_Place(member, name, name.lower(), location == "uri", inner.type_name == "integer"))
    return tuple(found)


def _header_text(text: str) -> str:
    """The text of a header as its sender meant it: servers hand values on as latin-1, clients send UTF-8."""
    try:
        return text if text.isascii() else text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _number_in_header(name: str, text: str) -> int:
    digits = text.strip()
    if not digits.removeprefix("-").isascii() or not digits.removeprefix("-").isdigit() or len(digits) > 18:
        raise ValidationError(f"Header {name} must be a whole number.")
    return int(digits)
