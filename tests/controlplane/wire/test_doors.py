"""The JSON 1.1 door from bytes to bytes, with botocore's own serializer and parser on the other side."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from hypothesis import given
from hypothesis import strategies as st

from controlplane.config.operations import MODULES
from controlplane.core.errors import SerializationException, ValidationError, ValidationException
from controlplane.wire import overlay
from controlplane.wire.doors import BODY_LIMIT_BYTES, Surroundings, WireRequest, json11, runtime_params
from controlplane.wire.errors import WireResponse
from controlplane.wire.model import load_service
from controlplane.wire.parse import parse_json
from controlplane.wire.registry import operation_names
from controlplane.wire.serialize import to_json
from controlplane.wire.validate import check
from tests.controlplane.auth.test_sigv4 import KEY, TARGET, signed

assert MODULES, "importing them registered the operations"

SERVICE = load_service("sagemaker")
TYPES = frozenset({"ml.m5.large", "ml.rack.h100x8"})
VARIANT = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": "ml.m5.large"}


def violations(operation: str, params: Mapping[str, Any]) -> str:
    """What validation says of these params, empty when nothing."""
    try:
        check(SERVICE.operation_model(operation).input_shape, dict(params), ValidationException, lambda: TYPES)
    except ValidationException as error:
        return error.message
    return ""


def config(**changes: Any) -> dict[str, Any]:
    """A legal CreateEndpointConfig with changes in its one variant; None removes a member."""
    variant = {name: value for name, value in {**VARIANT, **changes}.items() if value is not None}
    return {"EndpointConfigName": "c", "ProductionVariants": [variant]}


def at_door(body: bytes, **options: Any) -> WireResponse:
    """The door's answer to a signed request with this body."""
    headers = options.pop("headers", TARGET)
    request = signed(headers, body)
    now = datetime.strptime(str(request.header("x-amz-date")), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    around = Surroundings({KEY.access_key_id: KEY}.get, "us-east-1", now, "id-1", lambda: TYPES)
    return json11(WireRequest("POST", "/", "", request.headers, options.pop("sent", body)), around)


def test_a_legal_request_has_no_violations() -> None:
    assert violations("CreateEndpointConfig", config()) == ""
    assert violations("CreateEndpointConfig", config(InstanceType="ml.rack.h100x8")) == ""


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"InstanceType": "ml.nope"},
            "Value 'ml.nope' at 'productionVariants.1.member.instanceType' failed to satisfy constraint: "
            "Member must satisfy enum value set: [ml.m5.large, ml.rack.h100x8]",
        ),
        (
            {"InstanceType": None, "InstancePools": [{"InstanceType": "ml.m5.large", "Priority": 6}]},
            "Value '6' at 'productionVariants.1.member.instancePools.1.member.priority' failed to satisfy constraint: "
            "Member must have value less than or equal to 5",
        ),
        (
            {"InitialInstanceCount": 0},
            "Value '0' at 'productionVariants.1.member.initialInstanceCount' failed to satisfy constraint: "
            "Member must have value greater than or equal to 1",
        ),
        (
            {"InitialInstanceCount": 2**63},
            "Value '9223372036854775808' at 'productionVariants.1.member.initialInstanceCount' failed to satisfy "
            "constraint: Member must have value less than or equal to 2147483647",
        ),
        (
            {"VariantInstanceProvisionTimeoutInSeconds": 9999},
            "Value '9999' at 'productionVariants.1.member.variantInstanceProvisionTimeoutInSeconds' failed to satisfy "
            "constraint: Member must have value less than or equal to 3600",
        ),
        (
            {"ModelName": "a b"},
            "Value 'a b' at 'productionVariants.1.member.modelName' failed to satisfy constraint: "
            "Member must satisfy regular expression pattern: ",
        ),
        ({"VariantName": "v\x00"}, "Member must not contain the NUL character"),
        ({"VariantName": "\ud800"}, "Member must be valid Unicode text"),
        (
            {"VariantName": None},
            "Value null at 'productionVariants.1.member.variantName' failed to satisfy",
        ),
        ({"ServerlessConfig": {"MemorySizeInMB": 1024}}, "Member ServerlessConfig is not supported by Headrace"),
        (
            {
                "RoutingConfig": {
                    "RoutingStrategy": "PREFIX_AWARE",
                    "PrefixAwareRoutingConfig": {"PrefixLength": 2048, "ConcurrencyThreshold": 1025},
                }
            },
            "at 'productionVariants.1.member.routingConfig.prefixAwareRoutingConfig.concurrencyThreshold' failed",
        ),
        ({"RoutingConfig": {"RoutingStrategy": "x"}}, "Member must satisfy enum value set: ["),
    ],
)
def test_each_violation_is_named_with_its_path_and_limit(changes: dict[str, Any], sentence: str) -> None:
    message = violations("CreateEndpointConfig", config(**changes))
    assert message.startswith("1 validation error detected: ")
    assert sentence in message


def test_all_violations_come_in_one_message() -> None:
    message = violations(
        "CreateEndpointConfig", {**config(InitialInstanceCount=0, ModelName="-"), "EndpointConfigName": "!"}
    )
    assert message.startswith("3 validation errors detected: ")
    assert message.count("failed to satisfy constraint") == 3


def test_a_switch_that_is_off_anyway_is_accepted_and_on_is_refused() -> None:
    assert violations("CreateEndpointConfig", {**config(), "EnableNetworkIsolation": False}) == ""
    assert "EnableNetworkIsolation" in violations("CreateEndpointConfig", {**config(), "EnableNetworkIsolation": True})


def test_every_pattern_of_the_honoured_operations_compiles() -> None:
    seen: set[str] = set()

    def walk(shape: Any) -> None:
        if shape.name in seen:
            return
        seen.add(shape.name)
        if pattern := shape.metadata.get("pattern"):
            overlay.compiled(pattern)
        inner = [*getattr(shape, "members", {}).values()]
        inner += [getattr(shape, each) for each in ("member", "key", "value") if hasattr(shape, each)]
        for each in inner:
            walk(each)

    for name in operation_names():
        walk(SERVICE.operation_model(name).input_shape)
    runtime = load_service("sagemaker-runtime")
    for name in ("InvokeEndpoint", "InvokeEndpointAsync"):
        walk(runtime.operation_model(name).input_shape)
    assert "TagKey" in seen


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b"\xff",
        b'{"MaxResults": NaN}',
        b'{"MaxResults": 1' + b"0" * 5000 + b"}",
        b"[" * 100_000,
        b'{"MaxResults": "10"}',
        b'{"MaxResults": true}',
        b'{"MaxResults": 1.5}',
        b'{"NameContains": 7}',
        b'{"CreationTimeAfter": 1e400}',
        b'{"CreationTimeAfter": "soon"}',
    ],
)
def test_what_cannot_be_read_is_a_serialization_exception(body: bytes) -> None:
    with pytest.raises(SerializationException):
        parse_json(body, SERVICE.operation_model("ListEndpoints").input_shape)


def test_unknown_members_and_nulls_are_ignored() -> None:
    shape = SERVICE.operation_model("ListEndpoints").input_shape
    assert parse_json(b'{"Unheard": {"of": 1}, "NameContains": null, "MaxResults": 5}', shape) == {"MaxResults": 5}


@given(
    st.fixed_dictionaries(
        {"EndpointConfigName": st.text(max_size=70)},
        optional={
            "ProductionVariants": st.lists(
                st.fixed_dictionaries(
                    {"VariantName": st.text(max_size=5), "InitialVariantWeight": st.floats(0, 1e6, width=32)},
                    optional={"InstancePools": st.lists(st.fixed_dictionaries({"Priority": st.integers(1, 2**40)}))},
                )
            ),
            "EnableNetworkIsolation": st.booleans(),
        },
    )
)
def test_what_botocore_writes_is_what_is_read(params: dict[str, Any]) -> None:
    model = SERVICE.operation_model("CreateEndpointConfig")
    written = create_serializer("json", False).serialize_to_request(params, model)["body"]
    assert parse_json(written, model.input_shape) == params


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)), st.text(max_size=20))
def test_what_is_written_is_what_botocore_reads(moment: datetime, text: str) -> None:
    shape = SERVICE.operation_model("DescribeModel").output_shape
    body = to_json(shape, {"ModelName": text, "ModelArn": "arn", "CreationTime": moment, "VpcConfig": None})
    assert isinstance(json.loads(body)["CreationTime"], float)
    read = create_parser("json").parse({"status_code": 200, "headers": {}, "body": body}, shape)
    assert read["ModelName"] == text
    assert abs((read["CreationTime"] - moment).total_seconds()) <= 0.001
    assert "VpcConfig" not in read


def test_an_answer_with_a_member_that_the_shape_lacks_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="has no member Nope"):
        to_json(SERVICE.operation_model("DescribeModel").output_shape, {"Nope": 1})


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({**TARGET, "X-Amz-Target": "SageMaker.CreateTrainingJob"}, "UnknownOperationException"),
        ({**TARGET, "X-Amz-Target": "sagemaker.describeendpoint"}, "UnknownOperationException"),
        ({"Content-Type": "application/x-amz-json-1.1"}, "UnknownOperationException"),
    ],
)
def test_unknown_operations_are_refused_in_the_protocols_form(headers: dict[str, str], code: str) -> None:
    answer = at_door(b"{}", headers=headers)
    assert answer.status == 400
    assert dict(answer.headers)["x-amzn-ErrorType"] == code
    assert dict(answer.headers)["x-amzn-RequestId"] == "id-1"
    assert json.loads(answer.body)["__type"] == code


def test_an_altered_body_reaches_no_handler() -> None:
    answer = at_door(b'{"EndpointName": "a"}', sent=b'{"EndpointName": "b"}')
    assert json.loads(answer.body)["__type"] == "InvalidSignatureException"


def test_a_body_over_the_cap_is_refused_before_it_is_parsed() -> None:
    answer = at_door(b"x" * (BODY_LIMIT_BYTES + 1))
    assert answer.status == 413


@pytest.mark.parametrize(
    ("header", "value", "text"),
    [
        ("x-amzn-sagemaker-requestttlseconds", "59", "greater than or equal to 60"),
        ("x-amzn-sagemaker-requestttlseconds", "99999", "less than or equal to 21600"),
        ("x-amzn-sagemaker-requestttlseconds", "soon", "must be a whole number"),
        ("x-amzn-sagemaker-invocationtimeoutseconds", "4000", "less than or equal to 3600"),
        ("x-amzn-sagemaker-inference-id", "i" * 65, "less than or equal to 64"),
        ("x-amzn-sagemaker-filename", "a.b.c", "regular expression"),
        ("x-amzn-sagemaker-filename", "f" * 33, "less than or equal to 32"),
        ("x-amzn-sagemaker-s3outputpathextension", "s3://x", "regular expression"),
        ("x-amzn-sagemaker-custom-attributes", "caf\u00c3\u00a9", "regular expression"),
        ("x-amzn-sagemaker-custom-attributes", "k" * 1025, "less than or equal to 1024"),
        ("x-amzn-sagemaker-inputlocation", "http://b/k", "at 'inputLocation' failed to satisfy constraint"),
    ],
)
def test_runtime_headers_are_checked(header: str, value: str, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        runtime_params("InvokeEndpointAsync", "e", {header: value}, b"x")


@given(st.binary(max_size=200))
def test_no_body_crashes_the_door(body: bytes) -> None:
    assert at_door(body).status in (200, 400)
