"""The query protocol: a form in the body, XML in the answer. Old clients of CloudWatch still speak it.

    Action=PutMetricAlarm&Version=2010-08-01&AlarmName=a&Dimensions.member.1.Name=EndpointName&...

Source: https://smithy.io/2.0/aws/protocols/aws-query-protocol.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from botocore.model import OperationModel, Shape, StructureShape

from controlplane.core.errors import ApiError, SerializationException
from controlplane.wire import parse
from controlplane.wire.errors import WireResponse
from controlplane.wire.model import load_service
from controlplane.wire.services import Service

FORM = "application/x-www-form-urlencoded"
XML = "text/xml"
MOST_FIELDS = 50_000
DEEPEST = 12
"""Parts of a name; those of real requests have eight at most."""


@dataclass(frozen=True)
class QueryForm:
    """A form in the body, the operation among its fields."""

    service: Service

    def read(self, body: bytes, shape: StructureShape | None) -> dict[str, Any]:
        document = _members(shape, _tree(fields(body))) if shape is not None else {}
        return parse.parse_document(document, shape)

    def write(self, model: OperationModel, answer: Mapping[str, Any], request_id: str) -> WireResponse:
        root = ElementTree.Element(f"{model.name}Response", xmlns=self._namespace())
        if model.output_shape is not None:
            wrapper = model.output_shape.serialization.get("resultWrapper", f"{model.name}Result")
            _write(ElementTree.SubElement(root, wrapper), answer, model.output_shape)
        ElementTree.SubElement(ElementTree.SubElement(root, "ResponseMetadata"), "RequestId").text = request_id
        return _response(200, root, request_id)

    def error(self, error: ApiError, request_id: str) -> WireResponse:
        root = ElementTree.Element("ErrorResponse", xmlns=self._namespace())
        inner = ElementTree.SubElement(root, "Error")
        kind = "Sender" if error.is_client_fault else "Receiver"
        for name, text in (("Type", kind), ("Code", error.code), ("Message", _printable(error.message))):
            ElementTree.SubElement(inner, name).text = text
        ElementTree.SubElement(root, "RequestId").text = request_id
        return _response(error.status, root, request_id)

    def _namespace(self) -> str:
        return str(load_service(self.service.model).metadata["xmlNamespace"])


def fields(body: bytes) -> dict[str, str]:
    """The form's fields; raises SerializationException, also for a name that is given twice."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            max_num_fields=MOST_FIELDS,
            errors="strict",
        )
    except ValueError as error:
        raise SerializationException("The body is not a valid form.") from error
    found = dict(pairs)
    if len(found) != len(pairs):
        raise SerializationException("A name is given twice in the form.")
    return found


class _Node:
    """One name of the form: its own text, and what stands below it."""

    __slots__ = ("inner", "text")

    def __init__(self) -> None:
        self.text = ""
        self.inner: dict[str, _Node] = {}


def _tree(flat: Mapping[str, str]) -> _Node:
    """`A.member.1.Name=x` as a tree of the names between the dots."""
    root = _Node()
    for path, text in flat.items():
        here, parts = root, path.split(".", DEEPEST)
        if len(parts) > DEEPEST:
            raise SerializationException("A name in the form has too many parts.")
        for part in parts:
            here = here.inner.setdefault(part, _Node())
        here.text = text
    return root


def _members(shape: Any, node: _Node) -> dict[str, Any]:
    named = (
        (name, member, node.inner.get(member.serialization.get("name", name))) for name, member in shape.members.items()
    )
    return {name: _read(member, found) for name, member, found in named if found is not None}


def _read(shape: Any, node: _Node) -> Any:
    match shape.type_name:
        case "structure":
            return _members(shape, node)
        case "list":
            return [_read(shape.member, item) for item in _numbered(node, "member")]
        case "map":
            return dict(_pair(shape, entry) for entry in _numbered(node, "entry"))
    return _SCALARS.get(shape.type_name, str)(node.text)


def _pair(shape: Any, entry: _Node) -> tuple[str, Any]:
    return entry.inner.get("key", _Node()).text, _read(shape.value, entry.inner.get("value", _Node()))


def _numbered(node: _Node, name: str) -> list[_Node]:
    """The elements in the order of their numbers; an empty list is sent as the bare name."""
    numbered = node.inner.get(name, _Node()).inner
    places = sorted(((int(place), item) for place, item in numbered.items() if _is_place(place)), key=itemgetter(0))
    return [item for _, item in places]


def _is_place(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < DEEPEST


def _boolean(text: str) -> object:
    return {"true": True, "false": False}.get(text, text)


def _number(kind: Callable[[str], float]) -> Callable[[str], object]:
    def read(text: str) -> object:
        """The number in `text`; text that holds none is left for the shapes' own check to name."""
        try:
            return kind(text)
        except ValueError:
            return text

    return read


_SCALARS: dict[str, Callable[[str], object]] = {
    "boolean": _boolean,
    "integer": _number(int),
    "long": _number(int),
    "float": _number(float),
    "double": _number(float),
}


def _write(parent: ElementTree.Element, value: Any, shape: Any) -> None:
    """Write `value` into the element that stands for it."""
    match shape.type_name:
        case "structure":
            _write_members(parent, value, shape)
        case "list":
            for item in value:
                _write(ElementTree.SubElement(parent, "member"), item, shape.member)
        case "map":
            for key, item in value.items():
                entry = ElementTree.SubElement(parent, "entry")
                _write(ElementTree.SubElement(entry, "key"), key, shape.key)
                _write(ElementTree.SubElement(entry, "value"), item, shape.value)
        case _:
            parent.text = _text(value, shape)


def _write_members(parent: ElementTree.Element, value: Mapping[str, Any], shape: StructureShape) -> None:
    unknown = set(value) - set(shape.members)
    if unknown:
        raise AssertionError(f"{shape.name} has no member {', '.join(sorted(unknown))}")
    for name, item in value.items():
        if item is not None:
            member = shape.members[name]
            _write(ElementTree.SubElement(parent, member.serialization.get("name", name)), item, member)


def _text(value: Any, shape: Shape) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if shape.type_name == "boolean":
        return "true" if value else "false"
    return _printable(str(value))


def _printable(text: str) -> str:
    """Text without the control characters that XML cannot hold."""
    return "".join(letter if letter >= " " or letter in "\t\n\r" else "\ufffd" for letter in text)


def _response(status: int, root: ElementTree.Element, request_id: str) -> WireResponse:
    body = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return WireResponse(status, (("Content-Type", XML), ("x-amzn-RequestId", request_id)), body)
