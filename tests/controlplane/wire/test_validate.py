"""Each rule of a shape in the words that clients match on, all violations of a request in one message."""

import re
import sys
import unicodedata
from typing import Any

import pytest

from controlplane.config.operations import MODULES
from controlplane.core.errors import ValidationError, ValidationException
from controlplane.wire import overlay, parse
from controlplane.wire.model import load_service
from controlplane.wire.registry import operation_names
from controlplane.wire.validate import MOST_VIOLATIONS, check
from tests.controlplane.wire.shapes import all_shapes, inner_shapes

assert MODULES, "importing them registered the operations"

SERVICE = load_service("sagemaker")
TYPES = frozenset({"ml.rack.h100x8", "ml.m5.large"})
NAME_PATTERN = "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"


def sentences(operation: str, params: dict[str, Any]) -> list[str]:
    """The violations of a request, one by one; the count in front of them is checked here."""
    try:
        check(SERVICE.operation_model(operation).input_shape, params, ValidationException, lambda: TYPES)
    except ValidationException as error:
        head, _, rest = error.message.partition(" detected: ")
        found = re.split(r"; (?=Value )", rest)
        assert head == ("1 validation error" if len(found) == 1 else f"{len(found)} validation errors")
        return found
    return []


def variant(**changes: Any) -> dict[str, Any]:
    """A configuration of one legal variant with changes; None takes a member away."""
    members = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": "ml.m5.large", **changes}
    given = {name: value for name, value in members.items() if value is not None}
    return {"EndpointConfigName": "c", "ProductionVariants": [given]}


def failed(value: str, path: str, rule: str) -> list[str]:
    """The one sentence of one violation."""
    return [f"Value '{value}' at '{path}' failed to satisfy constraint: {rule}"]


FIRST = "productionVariants.1.member"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"InstanceType": "ml.p4d.24xlarge"},
            failed(
                "ml.p4d.24xlarge",
                f"{FIRST}.instanceType",
                "Member must satisfy enum value set: [ml.m5.large, ml.rack.h100x8]",
            ),
        ),
        (
            {"VariantName": "-v"},
            failed("-v", f"{FIRST}.variantName", f"Member must satisfy regular expression pattern: {NAME_PATTERN}"),
        ),
        (
            {"VariantName": "v\n"},
            failed("v\n", f"{FIRST}.variantName", f"Member must satisfy regular expression pattern: {NAME_PATTERN}"),
        ),
        (
            {"VariantName": ""},
            failed("", f"{FIRST}.variantName", f"Member must satisfy regular expression pattern: {NAME_PATTERN}"),
        ),
        (
            {"VariantName": "v" * 64},
            failed("v" * 64, f"{FIRST}.variantName", "Member must have length less than or equal to 63"),
        ),
        (
            {"InitialInstanceCount": 0},
            failed("0", f"{FIRST}.initialInstanceCount", "Member must have value greater than or equal to 1"),
        ),
        (
            {"InitialInstanceCount": 2**31},
            failed(
                "2147483648",
                f"{FIRST}.initialInstanceCount",
                "Member must have value less than or equal to 2147483647",
            ),
        ),
        (
            {"InitialVariantWeight": -0.5},
            failed("-0.5", f"{FIRST}.initialVariantWeight", "Member must have value greater than or equal to 0"),
        ),
        (
            {"InitialVariantWeight": 1e39},
            failed(
                "1e+39",
                f"{FIRST}.initialVariantWeight",
                "Member must have value less than or equal to 3.4028234663852886e+38",
            ),
        ),
        (
            {"VariantInstanceProvisionTimeoutInSeconds": 299},
            failed(
                "299",
                f"{FIRST}.variantInstanceProvisionTimeoutInSeconds",
                "Member must have value greater than or equal to 300",
            ),
        ),
        (
            {"RoutingConfig": {"RoutingStrategy": "PREFIX_AWARE", "PrefixAwareRoutingConfig": {"PrefixLength": 1023}}},
            failed(
                "1023",
                f"{FIRST}.routingConfig.prefixAwareRoutingConfig.prefixLength",
                "Member must have value greater than or equal to 1024",
            ),
        ),
        (
            {"VolumeSizeInGB": 9999},
            [
                f"Value at '{FIRST}.volumeSizeInGB' failed to satisfy constraint: "
                "Member VolumeSizeInGB is not supported by Headrace"
            ],
        ),
        (
            {"VariantName": None},
            [f"Value null at '{FIRST}.variantName' failed to satisfy constraint: Member must not be null"],
        ),
        (
            {"VariantName": "a\x00b"},
            failed(r"a\u0000b", f"{FIRST}.variantName", "Member must not contain the NUL character"),
        ),
        ({"VariantName": "\udc80"}, failed(r"\udc80", f"{FIRST}.variantName", "Member must be valid Unicode text")),
    ],
)
def test_a_violation_is_told_in_the_expected_words(changes: dict[str, Any], expected: list[str]) -> None:
    assert sentences("CreateEndpointConfig", variant(**changes)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"InitialInstanceCount": 2**31 - 1},
        {"InitialVariantWeight": 0.0},
        {"VariantName": "v" * 63},
        {"VariantInstanceProvisionTimeoutInSeconds": 300},
        {"VariantInstanceProvisionTimeoutInSeconds": 3600},
        {"InstanceType": "ml.rack.h100x8"},
        {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}},
        {"RoutingConfig": {"RoutingStrategy": "KV_AWARE"}},
        {"InstancePools": [{"InstanceType": "ml.m5.large", "Priority": place} for place in (1, 2, 3, 4, 5)]},
    ],
)
def test_the_limits_themselves_are_legal(changes: dict[str, Any]) -> None:
    assert sentences("CreateEndpointConfig", variant(**changes)) == []


def test_lists_are_counted_from_one_and_their_length_is_checked() -> None:
    pools = [{"InstanceType": "ml.m5.large", "Priority": 1}] * 5 + [{"InstanceType": "ml.m5.large", "Priority": 6}]
    too_long, too_large = sentences("CreateEndpointConfig", variant(InstancePools=pools))
    assert too_long.endswith(
        f"at '{FIRST}.instancePools' failed to satisfy constraint: Member must have length less than or equal to 5"
    )
    assert [too_large] == failed(
        "6", f"{FIRST}.instancePools.6.member.priority", "Member must have value less than or equal to 5"
    )


def test_every_violation_of_a_request_is_in_one_message() -> None:
    params = variant(InitialInstanceCount=0, InstanceType="ml.x", ServerlessConfig={})
    params |= {"EndpointConfigName": "a_b", "KmsKeyId": "k"}
    paths = [re.search(r"at '([^']*)'", each) for each in sentences("CreateEndpointConfig", params)]
    assert [path and path[1] for path in paths] == [
        "endpointConfigName",
        f"{FIRST}.initialInstanceCount",
        f"{FIRST}.instanceType",
        f"{FIRST}.serverlessConfig",
        "kmsKeyId",
    ]


def test_a_message_names_a_hundred_violations_at_most() -> None:
    arn = "arn:aws:sagemaker:us-east-1:123456789012:model/m"
    found = sentences("AddTags", {"ResourceArn": arn, "Tags": [{}] * 100_000})
    assert len(found) == MOST_VIOLATIONS == 100


def test_long_values_are_quoted_in_part() -> None:
    (sentence,) = sentences("CreateEndpointConfig", variant(VariantName="v" * 5000))
    assert f"Value '{'v' * 256}...' at" in sentence


def test_map_keys_and_values_are_checked() -> None:
    container = {"Image": "i", "Environment": {"1A": "x", "B": "y" * 1025}}
    found = sentences("CreateModel", {"ModelName": "m", "PrimaryContainer": container})
    assert found == [
        *failed(
            "1A",
            "primaryContainer.environment.key",
            "Member must satisfy regular expression pattern: [a-zA-Z_][a-zA-Z0-9_]*",
        ),
        *failed(
            "y" * 256 + "...",
            "primaryContainer.environment.value",
            "Member must have length less than or equal to 1024",
        ),
    ]


@pytest.mark.parametrize("account", ["123456789012", "\u0661" * 12])
def test_only_ascii_digits_are_digits(account: str) -> None:
    found = sentences("CreateModel", {"ModelName": "m", "ExecutionRoleArn": f"arn:aws:iam::{account}:role/r"})
    assert bool(found) == (not account.isascii())


def test_the_empty_resource_name_is_refused_by_the_pattern() -> None:
    assert sentences("DescribeEndpoint", {"EndpointName": ""}) == failed(
        "", "endpointName", f"Member must satisfy regular expression pattern: {NAME_PATTERN}"
    )


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"MaxResults": 101}, "less than or equal to 100"),
        ({"MaxResults": 0}, "greater than or equal to 1"),
        ({"SortBy": "Size"}, "enum value set: [Name, CreationTime, Status]"),
        ({"SortOrder": "Up"}, "enum value set: [Ascending, Descending]"),
        ({"NameContains": "a_b"}, "regular expression pattern: [a-zA-Z0-9-]+"),
        ({"NextToken": "t" * 8193}, "length less than or equal to 8192"),
    ],
)
def test_list_parameters_are_checked(params: dict[str, Any], rule: str) -> None:
    (sentence,) = sentences("ListEndpoints", params)
    assert sentence.endswith(rule)


def test_the_runtime_speaks_of_a_validation_error() -> None:
    shape = load_service("sagemaker-runtime").operation_model("InvokeEndpoint").input_shape
    with pytest.raises(ValidationError, match=r"^1 validation error detected: Value 'caf.' at 'customAttributes' failed"):
        check(shape, {"EndpointName": "e", "Body": b"", "CustomAttributes": "caf\u00e9"}, ValidationError, frozenset)


def honoured(shape: Any) -> list[Any]:
    """The structures and leaves of an input that validation may come to."""
    if shape.type_name != "structure":
        return [shape, *(found for inner in inner_shapes(shape) for found in honoured(inner))]
    names = overlay.honoured_members(shape.name)
    reached = shape.members if names is overlay.EVERYTHING else names
    assert set(reached) <= set(shape.members), f"{shape.name} has no such member"
    return [shape, *(found for name in reached for found in honoured(shape.members[name]))]


@pytest.mark.parametrize("name", sorted(operation_names()))
def test_every_operation_can_be_parsed_and_checked_to_its_last_member(name: str) -> None:
    root = SERVICE.operation_model(name).input_shape
    assert {shape.type_name for shape in all_shapes(root)} <= set(parse._READERS)
    for shape in honoured(root):
        if pattern := shape.metadata.get("pattern"):
            overlay.compiled(pattern)


def test_tag_keys_take_the_letters_digits_and_separators_of_every_script() -> None:
    tag_key = overlay.compiled(SERVICE.shape_for("TagKey").metadata["pattern"])
    wrong = []
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        legal = unicodedata.category(letter)[0] in "LZN" or letter in "_.:/=+-@"
        if legal != bool(tag_key.fullmatch(letter)):
            wrong.append(f"{code:04x} {unicodedata.category(letter)}")
    assert wrong == []
