"""A captured call as a line, and where it belongs."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.gateway.capture_record import Record, Side, file_name, folder, line
from controlplane.routing.table import Capture

AT = datetime(2026, 11, 3, 9, 7, 5, 123_456, tzinfo=UTC)
CAPTURE = Capture("s3://kept/by/day/", 100, True, True, ("text/csv",), ("application/json", "application/jsonlines"))


def record(**changes: Any) -> Record:
    given_: dict[str, Any] = {
        "endpoint_name": "one",
        "variant_name": "main",
        "capture": CAPTURE,
        "at": AT,
        "event_id": "e-1",
        "inference_id": "",
        "custom_attributes": "",
        "input": None,
        "output": None,
        **changes,
    }
    return Record(**given_)


def test_a_line_has_both_sides_and_what_is_known_of_the_call() -> None:
    sides = {"input": Side("text/csv", b"1,2"), "output": Side("application/json; charset=utf-8", b'{"a": 1}')}
    written = line(record(inference_id="id-1", custom_attributes="a=b", **sides))
    assert written.endswith(b"\n")
    assert json.loads(written) == {
        "captureData": {
            "endpointInput": {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2", "encoding": "CSV"},
            "endpointOutput": {
                "observedContentType": "application/json; charset=utf-8",
                "mode": "OUTPUT",
                "data": '{"a": 1}',
                "encoding": "JSON",
            },
        },
        "eventMetadata": {
            "eventId": "e-1",
            "customAttributes": ["a=b"],
            "inferenceId": "id-1",
            "inferenceTime": "2026-11-03T09:07:05Z",
        },
        "eventVersion": "0",
    }


def test_what_is_not_known_or_not_kept_is_left_out() -> None:
    document = json.loads(line(record(output=Side("image/png", b"\x89"))))
    assert set(document["captureData"]) == {"endpointOutput"}
    assert set(document["eventMetadata"]) == {"eventId", "inferenceTime"}


@pytest.mark.parametrize(
    ("content_type", "data", "encoding"),
    [
        ("text/csv", b"a", "CSV"),
        ("TEXT/CSV ;header=present", b"a", "CSV"),
        ("application/jsonlines", b"{}", "JSON"),
        ("text/plain", b"a", "BASE64"),
        ("", b"a", "BASE64"),
        ("text/csv", b"\xff", "BASE64"),
    ],
)
def test_only_listed_types_are_kept_as_text(content_type: str, data: bytes, encoding: str) -> None:
    side = json.loads(line(record(input=Side(content_type, data))))["captureData"]["endpointInput"]
    assert side["encoding"] == encoding
    assert side["observedContentType"] == content_type


@given(data=st.binary(max_size=2000), content_type=st.sampled_from(["text/csv", "application/json", "x/y"]))
def test_every_body_can_be_read_back(data: bytes, content_type: str) -> None:
    written = line(record(input=Side(content_type, data)))
    side = json.loads(written)["captureData"]["endpointInput"]
    assert written.count(b"\n") == 1
    assert (base64.b64decode(side["data"]) if side["encoding"] == "BASE64" else side["data"].encode()) == data


def test_a_record_belongs_to_its_hour() -> None:
    assert folder(record()) == "s3://kept/by/day/one/main/2026/11/03/09"
    assert file_name(record()) == "07-05-123-e-1.jsonl"
