"""The judge itself: every kind of drift between an answer and its document is seen, and nothing else is."""

import json
from typing import Any

import pytest

from tests.contract.openapi import Answer, Document, Drift

THING = {
    "type": "object",
    "required": ["Name", "At"],
    "properties": {
        "Name": {"type": "string", "maxLength": 5},
        "At": {"type": "string", "format": "date-time"},
        "Kind": {"type": "string", "enum": ["a", "b", None], "nullable": True},
        "Inner": {"$ref": "#/components/schemas/Inner"},
    },
}
RAW: dict[str, Any] = {
    "openapi": "3.0.3",
    "paths": {
        "/things/{Name}": {
            "get": {
                "operationId": "DescribeThing",
                "responses": {
                    "200": {
                        "headers": {"X-Id": {"required": True, "schema": {"type": "string"}}},
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
                    },
                    "4XX": {"$ref": "#/components/responses/Error"},
                },
            },
            "delete": {"operationId": "DeleteThing", "responses": {"204": {"description": "Gone."}}},
        },
        "/things/all": {
            "get": {
                "operationId": "ListThings",
                "responses": {
                    "200": {
                        "content": {
                            "application/json": {
                                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}
                            }
                        }
                    }
                },
            }
        },
    },
    "components": {
        "schemas": {
            "Thing": THING,
            "Inner": {"type": "object", "properties": {"Count": {"type": "integer", "minimum": 0}}},
        },
        "responses": {"Error": {"content": {"application/json": {"schema": {"type": "object"}}}}},
    },
}
GOOD = {"Name": "one", "At": "2026-01-02T03:04:05.678901Z"}
HEADERS = {"content-type": "application/json; charset=utf-8", "x-id": "7"}


@pytest.fixture(scope="module")
def document() -> Document:
    return Document(RAW)


def answer(body: object, status: int = 200, **headers: str) -> Answer:
    return Answer(status, {**HEADERS, **headers}, json.dumps(body).encode())


@pytest.mark.parametrize(
    "members", [{}, {"Kind": "a"}, {"Kind": None}, {"Inner": {"Count": 3}}], ids=["bare", "enum", "null", "nested"]
)
def test_what_is_described_passes(document: Document, members: dict[str, Any]) -> None:
    document.check("GET", "/things/one?x=1", answer({**GOOD, **members}))
    document.check("GET", "/things/all", answer([{**GOOD, **members}]))
    document.check_members("DescribeThing", {**GOOD, **members})


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"Name": "too long"}, "$.Name"),
        ({"Name": None}, "$.Name"),
        ({"At": "yesterday"}, "date-time"),
        ({"At": 1767323045.6}, "$.At"),
        ({"Kind": "c"}, "$.Kind"),
        ({"Inner": {"Count": -1}}, "$.Inner.Count"),
        ({"Inner": {"Count": 1, "Extra": 1}}, "Extra"),
        ({"Extra": 1}, "Extra"),
    ],
)
def test_a_member_that_is_not_as_described_is_a_drift(document: Document, members: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Drift) as seen:
        document.check("GET", "/things/one", answer({**GOOD, **members}))
    assert sentence in str(seen.value)
    with pytest.raises(Drift):
        document.check("GET", "/things/all", answer([GOOD, {**GOOD, **members}]))
    with pytest.raises(Drift):
        document.check_members("DescribeThing", {**GOOD, **members})


def test_a_missing_member_header_or_type_is_a_drift(document: Document) -> None:
    with pytest.raises(Drift, match="'At' is a required property"):
        document.check("GET", "/things/one", answer({"Name": "one"}))
    with pytest.raises(Drift, match="X-Id"):
        document.check("GET", "/things/one", Answer(200, {"content-type": "application/json"}, b"{}"))
    with pytest.raises(Drift, match="text/html"):
        document.check("GET", "/things/one", answer(GOOD, **{"content-type": "text/html"}))


def test_a_status_or_body_that_is_not_declared_is_a_drift(document: Document) -> None:
    document.check("GET", "/things/one", answer({}, 404))
    document.check("DELETE", "/things/one", Answer(204, {}, b""))
    with pytest.raises(Drift, match="DescribeThing does not declare"):
        document.check("GET", "/things/one", answer(GOOD, 500))
    with pytest.raises(Drift, match="none is declared"):
        document.check("DELETE", "/things/one", answer({}, 204))


def test_an_operation_that_is_not_there_may_only_be_said_not_to_be(document: Document) -> None:
    document.check("GET", "/nothing", answer({}, 404))
    document.check("PUT", "/things/one", answer({}, 405))
    with pytest.raises(Drift, match="no such operation"):
        document.check("GET", "/nothing", answer({}))
