"""CloudWatch's protocols from bytes to bytes, with botocore's own serializers and parsers on the other side."""

import gzip
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.config.operations import MODULES
from controlplane.core.errors import AlarmNotFound, ApiError, InternalFailure, SerializationException
from controlplane.wire.cbor import CborForm
from controlplane.wire.doors import BODY_LIMIT_BYTES, Surroundings, WireRequest, json11, query, rpc_cbor
from controlplane.wire.errors import WireResponse
from controlplane.wire.forms import Form, JsonForm
from controlplane.wire.model import load_service
from controlplane.wire.query import QueryForm
from controlplane.wire.registry import operation_names
from controlplane.wire.services import CLOUDWATCH, SAGEMAKER, by_target
from controlplane.wire.validate import check
from tests.controlplane.auth.test_sigv4 import KEY, signed
from tests.controlplane.wire.shapes import values

assert MODULES, "importing them registered the operations"

MODEL = load_service("cloudwatch")
OPERATIONS = sorted(operation_names(CLOUDWATCH))
FORMS: dict[str, Form] = {
    "json": JsonForm(CLOUDWATCH),
    "query": QueryForm(CLOUDWATCH),
    "smithy-rpc-v2-cbor": CborForm(CLOUDWATCH),
}
PATH = "/service/GraniteServiceVersion20100801/operation/"
TARGET = "GraniteServiceVersion20100801."


def without_empty(value: Any) -> Any:
    """The value without structures that hold nothing, of which a form has no trace."""
    if isinstance(value, list):
        return [kept for item in value if (kept := without_empty(item)) != {}]
    if isinstance(value, dict):
        return {name: kept for name, item in value.items() if (kept := without_empty(item)) != {}}
    return value


def written(protocol: str, params: Mapping[str, Any], operation: str) -> bytes:
    """The body that botocore sends."""
    request = create_serializer(protocol, False).serialize_to_request(dict(params), MODEL.operation_model(operation))
    body = request["body"]
    return urlencode(body).encode() if isinstance(body, dict) else bytes(body)


@pytest.mark.parametrize("protocol", sorted(FORMS))
@given(data=st.data())
def test_what_botocore_writes_is_what_is_read(protocol: str, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(OPERATIONS))
    model = MODEL.operation_model(operation)
    params = data.draw(values(model.input_shape))
    if protocol == "query":
        params = without_empty(params)
    assert FORMS[protocol].read(written(protocol, params, operation), model.input_shape) == params


@pytest.mark.parametrize("protocol", sorted(FORMS))
@given(data=st.data())
def test_what_is_written_is_what_botocore_reads(protocol: str, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(["DescribeAlarms", "GetMetricData", "GetMetricStatistics", "ListMetrics"]))
    model = MODEL.operation_model(operation)
    printable = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cn", "Co"]), max_size=5)
    label, number = data.draw(printable), data.draw(st.floats(-1e9, 1e9))
    moment = datetime(2026, 11, 1, 12, 0, 0, 123000, tzinfo=UTC)
    answer = {
        "DescribeAlarms": {"MetricAlarms": [{"AlarmName": label, "Threshold": number, "ActionsEnabled": True}]},
        "GetMetricData": {"MetricDataResults": [{"Id": label, "Timestamps": [moment], "Values": [number]}]},
        "GetMetricStatistics": {"Label": label, "Datapoints": [{"ExtendedStatistics": {"p99": number}}]},
        "ListMetrics": {"Metrics": [], "NextToken": None},
    }[operation]
    out = FORMS[protocol].write(model, answer, "id-1")
    read = parsed(protocol, out, model.output_shape)
    assert {name: read[name] for name, value in answer.items() if value is not None} == {
        name: value for name, value in answer.items() if value is not None
    }


def parsed(protocol: str, answer: WireResponse, shape: Any) -> dict[str, Any]:
    """The answer as botocore hands it to its caller."""
    headers = {name.lower(): value for name, value in answer.headers}
    raw = {"status_code": answer.status, "headers": headers, "body": answer.body}
    found: dict[str, Any] = create_parser(protocol).parse(raw, shape)
    return found


@pytest.mark.parametrize("protocol", sorted(FORMS))
@pytest.mark.parametrize("error", [AlarmNotFound("no <alarm> \x00\ud7ff"), InternalFailure("ours")])
def test_errors_carry_code_message_and_whose_fault_it_is(protocol: str, error: ApiError) -> None:
    out = FORMS[protocol].error(error, "id-1")
    found = parsed(protocol, out, None)
    assert found["Error"]["Code"] == error.code
    assert found["Error"]["Message"].startswith(error.message[:11])
    assert found["Error"]["Type"] == ("Sender" if error.is_client_fault else "Receiver")
    assert out.status == error.status
    assert dict(out.headers)["x-amzn-RequestId"] == "id-1"


def ask(door: Any, body: bytes, path: str = "/", sent: bytes | None = None, **headers: str) -> WireResponse:
    """A door's answer to a request that is signed for CloudWatch."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    service = named.pop("service", "monitoring")
    request = signed(named, body, f"http://127.0.0.1:8000{path}", service=service)
    now = datetime.strptime(str(request.header("x-amz-date")), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    around = Surroundings({KEY.access_key_id: KEY}.get, "us-east-1", now, "id-1", frozenset)
    arrived = WireRequest("POST", path, "", request.headers, body if sent is None else sent)
    answer: WireResponse = door(arrived, around)
    return answer


def code_of(answer: WireResponse) -> str:
    """The code of a JSON error."""
    return str(json.loads(answer.body)["__type"])


@given(st.binary(max_size=200))
def test_no_body_crashes_a_door(body: bytes) -> None:
    assert ask(rpc_cbor, body, f"{PATH}PutMetricAlarm").status == 400
    assert ask(query, b"Action=PutMetricAlarm&" + body).status == 400
    assert ask(query, body).status == 400
    assert ask(json11, body, X_Amz_Target=f"{TARGET}PutMetricAlarm").status == 400


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=5)
)
def test_a_form_may_have_any_names(value: object) -> None:
    body = urlencode({"Action": "PutMetricData", f"MetricData.member.{value}": "x", f"MetricData..{value}.": "y"})
    assert ask(query, body.encode()).status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"\xbb" + b"\xff" * 8,  # a map of 2**64 - 1 pairs
        b"\x9f" * 100_000,  # lists in lists, never closed
        b"\x7b" + b"\xff" * 8,  # a text of 2**64 - 1 bytes
        b"\x5b\x00\x00\x00\x7f\xff\xff\xff\xff",
        b"\xa1\xa0\x01",  # a map as a key
        b"\xa0\xa0",  # two items
        b"\xa1\x01\x01",  # a number as a key
        b"\xc1\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00",  # a time that never comes
        b"\x01",
        b"\xa1\x62\xff\xfe\x01",
    ],
)
def test_what_is_no_cbor_map_is_refused(body: bytes) -> None:
    with pytest.raises(SerializationException):
        CborForm(CLOUDWATCH).read(body, MODEL.operation_model("PutMetricAlarm").input_shape)


@pytest.mark.parametrize(
    "body", [b"Action=a&Action=b", b"=&=", b"Action", b"A=%ff", b"\xff=1", b"Action=x&" + b"a." * 20 + b"a=1"]
)
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(SerializationException):
        QueryForm(CLOUDWATCH).read(body, MODEL.operation_model("PutMetricAlarm").input_shape)


def test_numbers_that_are_none_are_named() -> None:
    with pytest.raises(SerializationException, match="Threshold must be a finite number"):
        QueryForm(CLOUDWATCH).read(b"Threshold=high", MODEL.operation_model("PutMetricAlarm").input_shape)
    with pytest.raises(SerializationException, match="ActionsEnabled must be true or false"):
        QueryForm(CLOUDWATCH).read(b"ActionsEnabled=maybe", MODEL.operation_model("PutMetricAlarm").input_shape)


def test_a_signature_for_one_service_opens_no_other() -> None:
    target = f"{TARGET}DescribeAlarms"
    assert code_of(ask(json11, b"{}", service="sagemaker", X_Amz_Target=target)) == "InvalidSignatureException"
    assert code_of(ask(json11, b"{}", X_Amz_Target="SageMaker.ListModels")) == "InvalidSignatureException"
    assert ask(rpc_cbor, b"\xa0", f"{PATH}DescribeAlarms", service="sagemaker").status == 400
    assert b"InvalidSignatureException" in ask(query, b"Action=DescribeAlarms", service="sagemaker").body


def test_no_service_answers_for_another() -> None:
    crossed = ask(json11, b"{}", service="sagemaker", X_Amz_Target="SageMaker.PutMetricAlarm")
    assert code_of(crossed) == "UnknownOperationException"
    assert code_of(ask(json11, b"{}", X_Amz_Target=f"{TARGET}CreateModel")) == "UnknownOperationException"
    wrong = ask(rpc_cbor, b"\xa0", "/service/SageMaker/operation/ListModels", service="sagemaker")
    assert b"UnknownOperationException" in wrong.body
    assert by_target("sagemaker") is None
    assert by_target("SageMaker") is SAGEMAKER


def test_an_altered_body_reaches_no_handler() -> None:
    for door, path, body in ((query, "/", b"Action=DescribeAlarms"), (rpc_cbor, f"{PATH}DescribeAlarms", b"\xa0")):
        assert b"InvalidSignatureException" in ask(door, body, path, sent=body + b" ").body


@pytest.mark.parametrize(
    ("body", "encoding", "code"),
    [
        (gzip.compress(b"x" * (BODY_LIMIT_BYTES + 1), mtime=0), "gzip", "RequestEntityTooLargeException"),
        (gzip.compress(b"{}", mtime=0)[:-4], "gzip", "SerializationException"),
        (zlib.compress(b"{}"), "gzip", "SerializationException"),
        (b"{}", "br", "SerializationException"),
        (gzip.compress(b"{}", mtime=0), "gzip", "ValidationError"),
    ],
)
def test_packed_bodies_are_unpacked_within_the_cap(body: bytes, encoding: str, code: str) -> None:
    answer = ask(json11, body, X_Amz_Target=f"{TARGET}PutMetricAlarm", Content_Encoding=encoding)
    assert code_of(answer) == code


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=20)
@given(data=st.data())
def test_every_request_of_its_shape_is_checked_without_a_fault(operation: str, data: st.DataObject) -> None:
    shape = MODEL.operation_model(operation).input_shape
    with suppress(CLOUDWATCH.violation):
        check(shape, data.draw(values(shape)), CLOUDWATCH.violation, frozenset)
