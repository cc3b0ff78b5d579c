"""How much one request can make the wire say and do, and what it says of members that have no effect here."""

from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader

from controlplane.core.errors import SerializationException, UnknownOperationException, ValidationError, ValidationException
from controlplane.wire.doors import runtime_params
from controlplane.wire.model import load_service
from controlplane.wire.overlay import honoured_members
from controlplane.wire.parse import parse_json
from controlplane.wire.registry import handler_of
from controlplane.wire.validate import MESSAGE_LIMIT, QUOTED_LIMIT, check

SERVICE = load_service("sagemaker")
AWS_TYPES = frozenset(SERVICE.shape_for("ProductionVariantInstanceType").enum)


def message(operation: str, params: dict[str, Any]) -> str:
    """What validation says of these params, empty when nothing."""
    try:
        check(SERVICE.operation_model(operation).input_shape, params, ValidationException, lambda: AWS_TYPES)
    except ValidationException as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    "body", [b'{"MaxResults": 1, "MaxResults": 2}', b'{"Unheard": {"a": 1, "a": 1}}', b'{"\\u0041": 1, "A": 2}']
)
def test_a_name_given_twice_is_refused(body: bytes) -> None:
    with pytest.raises(SerializationException, match="given twice"):
        parse_json(body, SERVICE.operation_model("ListModels").input_shape)


def test_blobs_are_read_from_base64() -> None:
    shape = load_service("sagemaker-runtime").shape_for("InvokeEndpointInput")
    assert parse_json(b'{"Body": "AP8="}', shape) == {"Body": b"\x00\xff"}
    with pytest.raises(SerializationException, match="Body must be text in base64"):
        parse_json(b'{"Body": "***"}', shape)


def test_fifty_wrong_instance_types_are_counted_and_told_within_one_message() -> None:
    pools = [{"InstanceType": "ml.nope", "Priority": 1}] * 5
    variants = [{"VariantName": f"v{place}", "InstancePools": pools} for place in range(10)]
    found = message("CreateEndpointConfig", {"EndpointConfigName": "c", "ProductionVariants": variants})
    assert found.startswith("50 validation errors detected: Value 'ml.nope' at 'productionVariants.1.member.instancePools.")
    assert found.count("Value 'ml.nope'") + int(found.rpartition("; and ")[2].removesuffix(" more")) == 50
    assert len(found) < MESSAGE_LIMIT + 100


def test_the_first_violation_is_told_whole_however_long() -> None:
    params = {"EndpointConfigName": "c", "ProductionVariants": [{"VariantName": "v", "InstanceType": "ml.nope"}]}
    assert message("CreateEndpointConfig", params).endswith(f"[{', '.join(sorted(AWS_TYPES))}]")


def test_a_list_far_beyond_its_limit_is_refused_for_its_length_alone() -> None:
    params = {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:model/m", "TagKeys": ["k"] * 900_000 + [""]}
    found = message("DeleteTags", params)
    assert found.startswith("1 validation error detected: Value '['k', 'k'")
    assert found.endswith("' at 'tagKeys' failed to satisfy constraint: Member must have length less than or equal to 50")
    assert len(found) < 2 * QUOTED_LIMIT


@pytest.mark.parametrize(("value", "is_refused"), [(False, False), (True, True)])
def test_session_manager_access_may_be_off_but_not_on(value: bool, is_refused: bool) -> None:
    variant = {"VariantName": "v", "EnableSSMAccess": value}
    found = message("CreateEndpointConfig", {"EndpointConfigName": "c", "ProductionVariants": [variant]})
    assert ("Member EnableSSMAccess is not supported by Headrace" in found) == is_refused


def test_an_unknown_operation_is_quoted_in_part() -> None:
    with pytest.raises(UnknownOperationException) as caught:
        handler_of("X" * 5000)
    assert len(caught.value.message) < 200


def test_an_inference_component_is_refused_in_the_words_that_clients_match() -> None:
    with pytest.raises(ValidationError, match=r"^Inference Component Name header is not allowed for endpoints"):
        runtime_params("InvokeEndpoint", "e", {"x-amzn-sagemaker-inference-component": "ic"}, b"")


@pytest.mark.parametrize(
    "header",
    ["target-model", "target-container-hostname", "enable-explanations"],
)
def test_runtime_members_without_effect_are_refused_by_name(header: str) -> None:
    with pytest.raises(ValidationError, match=f"Member {header.title().replace('-', '')} is not supported by Headrace"):
        runtime_params("InvokeEndpoint", "e", {f"x-amzn-sagemaker-{header}": "v"}, b"")


def test_header_text_is_quoted_as_its_sender_wrote_it() -> None:
    seen = "\u6f22\u00e0".encode().decode("latin-1")
    with pytest.raises(ValidationError, match="Value '\u6f22\u00e0' at 'inferenceId'"):
        runtime_params("InvokeEndpoint", "e", {"x-amzn-sagemaker-inference-id": seen}, b"")
    with pytest.raises(ValidationError, match="Value '\u00ff' at 'inferenceId'"):
        runtime_params("InvokeEndpoint", "e", {"x-amzn-sagemaker-inference-id": "\u00ff"}, b"")


@pytest.mark.parametrize("operation", ["InvokeEndpoint", "InvokeEndpointAsync"])
@pytest.mark.parametrize("text", ["\u00ff", "\u6f22", "a\U0001f600"])
def test_no_header_carries_anything_but_ascii(operation: str, text: str) -> None:
    shape = load_service("sagemaker-runtime").operation_model(operation).input_shape
    in_headers = {name: each for name, each in shape.members.items() if each.serialization.get("location") == "header"}
    for name in in_headers.keys() & honoured_members(shape.name):
        header = in_headers[name].serialization["name"].lower()
        with pytest.raises(ValidationError):
            runtime_params(operation, "e", {header: text.encode().decode("latin-1")}, b"")


def test_the_endpoint_name_is_read_from_its_path_segment() -> None:
    assert runtime_params("InvokeEndpoint", "a%2Db", {}, b"")["EndpointName"] == "a-b"
    with pytest.raises(ValidationError, match=r"Value 'a b/\.\.' at 'endpointName'"):
        runtime_params("InvokeEndpoint", "a%20b%2F..", {}, b"")


def test_models_in_a_home_directory_have_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "sagemaker" / "2099-01-01" / "service-2.json"
    planted.parent.mkdir(parents=True)
    planted.write_text('{"metadata": {}, "operations": {}, "shapes": {}}')
    monkeypatch.setattr(Loader, "CUSTOMER_DATA_PATH", str(tmp_path))
    assert "CreateEndpoint" in load_service.__wrapped__("sagemaker").operation_names
