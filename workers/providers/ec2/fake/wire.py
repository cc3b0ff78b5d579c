"""EC2's query protocol, driven by botocore's model: a form -> data as boto3 shows it -> XML."""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from botocore.loaders import Loader
from botocore.model import ListShape, ServiceModel, Shape, StructureShape

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@lru_cache(maxsize=1)
def model() -> ServiceModel:
    """botocore's model of EC2."""
    return ServiceModel(Loader().load_service_model("ec2", "service-2"), "ec2")


def read(body: str) -> tuple[str, dict[str, Any]]:
    """The operation's name and its parameters by boto3's names; raises ValueError for an operation there is not."""
    form = dict(parse_qsl(body, keep_blank_values=True, strict_parsing=bool(body)))
    action = form.get("Action", "")
    if action not in model().operation_names:
        raise ValueError(f"There is no operation {action!r}.")
    shape = model().operation_model(action).input_shape
    return action, _read(shape, _nest(form)) if shape else {}


def write(action: str, answer: Mapping[str, Any], request_id: str) -> bytes:
    """The XML of an answer that is given by boto3's names."""
    root = ElementTree.Element(f"{action}Response", xmlns=NAMESPACE)
    ElementTree.SubElement(root, "requestId").text = request_id
    shape = model().operation_model(action).output_shape
    if shape is not None:
        _write_members(root, shape, answer)
    return _bytes(root)


def write_error(code: str, message: str, request_id: str) -> bytes:
    """The XML of an error."""
    root = ElementTree.Element("Response")
    error = ElementTree.SubElement(ElementTree.SubElement(root, "Errors"), "Error")
    ElementTree.SubElement(error, "Code").text = code
    ElementTree.SubElement(error, "Message").text = message
    ElementTree.SubElement(root, "RequestID").text = request_id
    return _bytes(root)


def _bytes(root: ElementTree.Element) -> bytes:
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _nest(form: Mapping[str, str]) -> dict[str, Any]:
    """`A.1.B=x` as {"A": {"1": {"B": "x"}}}."""
    tree: dict[str, Any] = {}
    for name, value in form.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ValueError(f"The parameter {name} is a value and a group at once.")
        place[last] = value
    return tree


def _read(shape: Shape, found: Any) -> Any:
    if isinstance(shape, StructureShape):
        return _read_structure(shape, found)
    if isinstance(shape, ListShape):
        return [_read(shape.member, found[key]) for key in sorted(found, key=int)]
    if not isinstance(found, str):
        raise ValueError(f"A value was expected for {shape.name}.")
    readers: dict[str, Callable[[str], Any]] = {
        "integer": int,
        "long": int,
        "boolean": lambda text: text == "true",
        "blob": base64.b64decode,
    }
    return readers.get(shape.type_name, str)(found)


def _read_structure(shape: StructureShape, found: Mapping[str, Any]) -> dict[str, Any]:
    members = {_query_name(name, member): (name, member) for name, member in shape.members.items()}
    return {members[key][0]: _read(members[key][1], value) for key, value in found.items() if key in members}


def _query_name(name: str, member: Shape) -> str:
    """A member's name in a query: EC2 capitalises the name it has in answers."""
    own: str | None = member.serialization.get("queryName")
    if own:
        return own
    other = str(member.serialization.get("name", name))
    return other[0].upper() + other[1:]


def _write_members(parent: ElementTree.Element, shape: StructureShape, data: Mapping[str, Any]) -> None:
    for name, member in shape.members.items():
        if data.get(name) is not None:
            _write(ElementTree.SubElement(parent, member.serialization.get("name", name)), member, data[name])


def _write(element: ElementTree.Element, shape: Shape, data: Any) -> None:
    if isinstance(shape, StructureShape):
        _write_members(element, shape, data)
    elif isinstance(shape, ListShape):
        for each in data:
            _write(ElementTree.SubElement(element, shape.member.serialization.get("name", "item")), shape.member, each)
    else:
        element.text = _text(data)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return str(value)
