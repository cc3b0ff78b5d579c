"""botocore writes, Headrace reads, and the other way round: whole shapes at a time, nothing lost or changed."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.config.operations import MODULES
from controlplane.core.errors import ApiError, ModelError, SerializationException
from controlplane.wire.errors import json11_error, runtime_error
from controlplane.wire.model import load_service
from controlplane.wire.parse import parse_json
from controlplane.wire.registry import operation_names
from controlplane.wire.serialize import dump, to_json
from tests.controlplane.wire.shapes import values

assert MODULES, "importing them registered the operations"

SERVICE = load_service("sagemaker")
WIDE_SHAPES = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
CREATES = ["CreateModel", "CreateEndpointConfig", "CreateEndpoint"]
ANSWERS = ["DescribeModel", "DescribeEndpointConfig", "DescribeEndpoint", "ListModels", "ListEndpoints", "AddTags"]


def read_by_botocore(operation: str, body: bytes) -> dict[str, Any]:
    """What a boto3 client would return, without its metadata."""
    shape = SERVICE.operation_model(operation).output_shape
    answer = create_parser("json").parse({"status_code": 200, "headers": {}, "body": body}, shape)
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


@pytest.mark.parametrize("operation", CREATES)
@WIDE_SHAPES
@given(data=st.data())
def test_what_botocore_writes_is_what_is_read(operation: str, data: st.DataObject) -> None:
    model = SERVICE.operation_model(operation)
    params = data.draw(values(model.input_shape))
    written = create_serializer("json", False).serialize_to_request(params, model)["body"]
    assert parse_json(written, model.input_shape) == params


@pytest.mark.parametrize("operation", ANSWERS)
@WIDE_SHAPES
@given(data=st.data())
def test_what_is_written_is_what_botocore_reads(operation: str, data: st.DataObject) -> None:
    shape = SERVICE.operation_model(operation).output_shape
    answer = data.draw(values(shape))
    assert read_by_botocore(operation, to_json(shape, answer)) == answer


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_times_are_cut_to_milliseconds_and_never_rounded_up(moment: datetime) -> None:
    body = to_json(SERVICE.operation_model("DescribeModel").output_shape, {"CreationTime": moment})
    shown = read_by_botocore("DescribeModel", body)["CreationTime"]
    assert shown == moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert isinstance(json.loads(body)["CreationTime"], float)


def test_an_operation_without_output_answers_nothing_and_an_empty_output_an_object() -> None:
    assert to_json(SERVICE.operation_model("DeleteModel").output_shape, {}) == b""
    assert to_json(SERVICE.operation_model("DeleteTags").output_shape, {}) == b"{}"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_never_written(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"Weight": number})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(data=st.data())
def test_any_json_in_any_member_is_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(operation_names() & {*CREATES, "AddTags", "ListEndpoints"})))
    shape = SERVICE.operation_model(name).input_shape
    document = data.draw(st.dictionaries(st.sampled_from(sorted(shape.members)), JSON, max_size=3))
    try:
        read, refusal = parse_json(json.dumps(document).encode(), shape), ""
    except SerializationException as error:
        read, refusal = {}, error.message
    assert set(read) <= set(document)
    assert not refusal or refusal.startswith((*document, "The body is not valid JSON"))


@pytest.mark.parametrize("error", [ApiError("caf\u00e9 \ud800 \x00"), ModelError("m", {"OriginalStatusCode": 500})])
def test_errors_carry_their_code_in_header_and_body(error: ApiError) -> None:
    control, runtime = json11_error(error, "id-9"), runtime_error(error, "id-9")
    for answer, content_type, member in (
        (control, "application/x-amz-json-1.1", "message"),
        (runtime, "application/json", "Message"),
    ):
        assert answer.status == error.status
        assert dict(answer.headers) == {
            "Content-Type": content_type,
            "x-amzn-ErrorType": error.code,
            "x-amzn-RequestId": "id-9",
        }
        assert json.loads(answer.body) == {"__type": error.code, member: error.message, **error.extra}
