"""The OpenAPI document as a judge: whether what a server answered is what its document says.

    method + path --> operation --> status (exact, 4XX, default) --> media type --> schema

The schemas are read more strictly than JSON Schema reads them: a member that the document does not name is a drift too,
since a generated client would lose it without a word.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from openapi_schema_validator import OAS30ReadValidator, OAS31Validator, oas30_format_checker, oas31_format_checker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

_METHODS = ("get", "put", "post", "delete", "patch")
_WHOLE = "urn:document"


class Drift(AssertionError):
    """An answer that the document does not describe."""


@dataclass(frozen=True)
class Answer:
    """What a server answered; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Document:
    """A whole OpenAPI document, 3.0 or later."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.raw = document
        closed = _closed(copy.deepcopy(dict(document)))
        self._registry: Registry[Any] = Registry().with_resource(_WHOLE, DRAFT202012.create_resource(closed))

    @cached_property
    def _operations(self) -> list[tuple[re.Pattern[str], str, str, Mapping[str, Any]]]:
        """(pattern of the path, template, method, operation): those with fewer variable parts first."""
        found = []
        for template, item in self.raw["paths"].items():
            pattern = re.compile("".join(_pieces(template)))
            found += [(pattern, template, method, item[method]) for method in _METHODS if method in item]
        return sorted(found, key=lambda each: (each[1].count("{"), each[1]))

    def operation(self, method: str, path: str) -> Mapping[str, Any] | None:
        """The operation that this request is for; None where the document has none."""
        plain = urlsplit(path).path
        for pattern, _, verb, operation in self._operations:
            if verb == method.lower() and pattern.fullmatch(plain):
                return operation
        return None

    def operations(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """(method, template of the path, operation) of all of them."""
        for _, template, method, operation in self._operations:
            yield method, template, operation

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Raise Drift unless the document describes this answer to this request."""
        where = f"{method} {path} answered {answer.status}"
        operation = self.operation(method, path)
        if operation is None:
            if answer.status not in (404, 405):
                raise Drift(f"{where}, but the document has no such operation.")
            return
        response = self._response(operation, answer.status)
        if response is None:
            raise Drift(f"{where}, which {operation['operationId']} does not declare: {answer.body[:200]!r}")
        missing = [
            name
            for name, header in response.get("headers", {}).items()
            if header.get("required") and name.lower() not in answer.headers
        ]
        if missing:
            raise Drift(f"{where} without the header(s) {', '.join(missing)}.")
        self._check_body(where, response.get("content", {}), answer)

    def check_members(self, operation_id: str, members: object) -> None:
        """Raise Drift unless `members`, as JSON has them, are what the operation answers when all goes well."""
        for _, _, operation in self.operations():
            if operation["operationId"] == operation_id:
                [success] = [r for status, r in operation["responses"].items() if status.startswith("2")]
                content = self._resolved(success).get("content", {})
                for about in content.values():
                    self._check_value(operation_id, about["schema"], members)

    def _response(self, operation: Mapping[str, Any], status: int) -> Mapping[str, Any] | None:
        responses = operation["responses"]
        found = responses.get(str(status)) or responses.get(f"{status // 100}XX") or responses.get("default")
        return None if found is None else self._resolved(found)

    def _resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The node itself, or what it refers to."""
        while "$ref" in node:
            node = self._registry.resolver(_WHOLE).lookup(node["$ref"]).contents
        return node

    def _check_body(self, where: str, content: Mapping[str, Any], answer: Answer) -> None:
        if not content:
            if answer.body:
                raise Drift(f"{where} with a body where none is declared: {answer.body[:200]!r}")
            return
        about = content.get(answer.media_type) or content.get("*/*")
        if about is None:
            raise Drift(f"{where} as {answer.media_type!r}; declared: {', '.join(content)}.")
        if answer.media_type.endswith("json"):
            self._check_value(where, about["schema"], json.loads(answer.body))

    def _check_value(self, where: str, schema: Mapping[str, Any], value: object) -> None:
        if "$ref" in schema:
            schema = {"$ref": _WHOLE + schema["$ref"]}
        else:
            schema = json.loads(json.dumps(_closed(copy.deepcopy(dict(schema)))).replace('"#/', f'"{_WHOLE}#/'))
        if str(self.raw["openapi"]).startswith("3.0"):
            validator = OAS30ReadValidator(schema, registry=self._registry, format_checker=oas30_format_checker)
        else:
            validator = OAS31Validator(schema, registry=self._registry, format_checker=oas31_format_checker)
        wrong = [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(value)]
        if wrong:
            raise Drift(f"{where}, which its schema does not allow: " + "; ".join(wrong[:5]))


def _pieces(template: str) -> Iterator[str]:
    """A template of a path as pieces of a regular expression."""
    for piece in re.split(r"(\{[^}]+\})", template):
        yield "[^/]+" if piece.startswith("{") else re.escape(piece)


def _closed(node: Any) -> Any:
    """The same with every object that names its members closed to others, but for parts of an allOf."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: value if key in ("example", "examples") else _closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found
