"""Reading queries and bodies as resources carry them, and writing answers that can be read back."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.model import StructureShape
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.errors import SerializationException
from controlplane.wire import resource
from controlplane.wire.model import load_service
from tests.controlplane.wire.shapes import WHOLE_MILLISECONDS, values

NOBODY: frozenset[str] = frozenset()


def input_of(name: str, service: str = "sagemaker") -> StructureShape:
    return load_service(service).operation_model(name).input_shape


def output_of(name: str, service: str = "sagemaker") -> StructureShape:
    return load_service(service).operation_model(name).output_shape


STATISTICS = input_of("GetMetricStatistics", "cloudwatch")


@given(moment=WHOLE_MILLISECONDS)
def test_a_time_comes_back_as_it_was_told(moment: datetime) -> None:
    found = resource.from_query({"StartTime": [resource.iso(moment)]}, STATISTICS, NOBODY)
    assert found == {"StartTime": moment}


@given(moment=WHOLE_MILLISECONDS, minutes=st.integers(-14 * 60, 14 * 60))
def test_a_time_is_the_same_with_any_offset(moment: datetime, minutes: int) -> None:
    told = moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat()
    assert resource.from_query({"StartTime": [told]}, STATISTICS, NOBODY)["StartTime"] == moment


def test_a_time_is_cut_not_rounded() -> None:
    assert resource.iso(datetime(2026, 1, 31, 12, 0, 0, 999_999, UTC)) == "2026-01-31T12:00:00.999Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31",
        "20260131T120000Z",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00",
        "2026-02-30T12:00:00Z",
        "2026-01-31T25:00:00Z",
        "2026-01-31T12:00:00+25:00",
        "٢٠٢٦-01-31T12:00:00Z",
        "1769860800",
        "now",
        "",
    ],
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(SerializationException, match=r"^EndTime must be a time in ISO 8601"):
        resource.from_query({"EndTime": [text]}, STATISTICS, NOBODY)


def test_a_query_is_typed_by_its_shapes() -> None:
    texts = {"Dimensions": ["A=1", "B=x=y"], "Period": ["60"], "Statistics": ["Sum", "Maximum"], "Unknown": ["1"]}
    assert resource.from_query(texts, STATISTICS, NOBODY) == {
        "Dimensions": [{"Name": "A", "Value": "1"}, {"Name": "B", "Value": "x=y"}],
        "Period": 60,
        "Statistics": ["Sum", "Maximum"],
    }


def test_what_the_path_names_is_not_looked_for_in_the_query() -> None:
    shape = input_of("DescribeEndpoint")
    assert resource.from_query({"EndpointName": ["f"]}, shape, frozenset({"EndpointName"})) == {}


@pytest.mark.parametrize("text", ["", " 1", "1.0", "0x1", "1_0", "٣", "9" * 40, "true"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(SerializationException, match=r"^Period must be a whole number"):
        resource.from_query({"Period": [text]}, STATISTICS, NOBODY)


@pytest.mark.parametrize("value", [1769860800, 1769860800.5, True, "1769860800", {}])
def test_a_body_s_time_is_text_too(value: object) -> None:
    body = serialized({"StartTime": value})
    with pytest.raises(SerializationException, match=r"^StartTime must be a time"):
        resource.from_body(body, input_of("GetMetricData", "cloudwatch"), {})


def serialized(document: Any) -> bytes:
    return resource.serialize.dump(document)


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("sagemaker", "CreateModel"),
        ("sagemaker", "CreateEndpointConfig"),
        ("sagemaker", "CreateEndpoint"),
        ("cloudwatch", "PutMetricData"),
        ("cloudwatch", "GetMetricData"),
    ],
)
@settings(max_examples=30)
@given(data=st.data())
def test_a_body_comes_back_as_it_was_written(service: str, operation: str, data: st.DataObject) -> None:
    shape = input_of(operation, service)
    params = data.draw(values(shape))
    assert resource.from_body(serialized(resource.to_document(shape, params)), shape, {}) == params


def test_an_answer_without_members_is_none() -> None:
    assert resource.to_document(output_of("DeleteTags"), {}) is None
    assert resource.to_document(output_of("DeleteEndpoint"), {}) is None


def test_a_member_that_the_path_has_too_may_only_say_the_same() -> None:
    shape = input_of("UpdateEndpoint")
    assert resource.from_body(b"{}", shape, {"EndpointName": "e"}) == {"EndpointName": "e"}
    assert resource.from_body(b'{"EndpointName": "e"}', shape, {"EndpointName": "e"}) == {"EndpointName": "e"}
    with pytest.raises(SerializationException, match="given by the path"):
        resource.from_body(b'{"EndpointName": "f"}', shape, {"EndpointName": "e"})
