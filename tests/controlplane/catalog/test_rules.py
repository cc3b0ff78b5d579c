"""Rules that span members, each in its own words."""

from typing import Any

import pytest

from controlplane.catalog.rules import config_violations, encryption_violations, model_violations, tag_violations

IMAGE = {"Image": "i"}
WHERE = 'Production variant "v"'


def variant(**changes: Any) -> dict[str, Any]:
    """A legal variant with changes; None takes a member away."""
    members = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": "ml.m5.large", **changes}
    return {name: value for name, value in members.items() if value is not None}


def pools(*types: str) -> list[dict[str, Any]]:
    """Pools of these types, all as much wanted."""
    return [{"InstanceType": each, "Priority": 1} for each in types]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"PrimaryContainer": IMAGE}, []),
        ({"Containers": [IMAGE]}, []),
        ({"PrimaryContainer": {**IMAGE, "ModelDataUrl": "s3://b/m.tar.gz", "Environment": {"A": "b"}}}, []),
        ({}, ["Specify exactly one of PrimaryContainer and Containers."]),
        ({"Containers": []}, ["Specify exactly one of PrimaryContainer and Containers."]),
        (
            {"PrimaryContainer": IMAGE, "Containers": [IMAGE]},
            ["Specify exactly one of PrimaryContainer and Containers."],
        ),
        (
            {"Containers": [IMAGE, {}]},
            [
                "Containers with more than one container (inference pipelines) is not supported by Headrace.",
                "A container must name its Image.",
            ],
        ),
        ({"PrimaryContainer": {}}, ["A container must name its Image."]),
        (
            {"PrimaryContainer": {**IMAGE, "ModelDataUrl": "https://h/m.tar.gz"}},
            ["ModelDataUrl must be an s3:// location; Headrace fetches no other addresses."],
        ),
    ],
)
def test_a_model_as_a_whole(params: dict[str, Any], expected: list[str]) -> None:
    assert list(model_violations(params)) == expected


@pytest.mark.parametrize(("last", "expected"), [(1023, []), (1024, [32769])])
def test_all_variables_together_hold_32_kilobytes_counted_as_utf8(last: int, expected: list[int]) -> None:
    environment = {f"{place:02}": "\u00e9" * 511 for place in range(31)} | {"Z": "z" * last}
    sizes = [f"Environment holds {size} bytes; all variables together may hold 32768." for size in expected]
    assert list(model_violations({"PrimaryContainer": {**IMAGE, "Environment": environment}})) == sizes


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ([variant()], []),
        ([variant(InstanceType=None, InstancePools=pools("a", "b"))], []),
        ([variant(), variant(VariantName="w")], []),
        ([variant(), variant(VariantName="V")], []),
        ([variant()] * 3, ['Variant name "v" is used more than once in ProductionVariants.']),
        ([variant(InstanceType=None)], [f"{WHERE} must specify exactly one of InstanceType and InstancePools."]),
        ([variant(InstancePools=pools("a"))], [f"{WHERE} must specify exactly one of InstanceType and InstancePools."]),
        ([variant(InitialInstanceCount=None)], [f"{WHERE} must specify InitialInstanceCount."]),
        (
            [variant(ModelName=None)],
            [f"{WHERE} must specify ModelName; inference components are not supported by Headrace."],
        ),
        (
            [variant(InstanceType=None, InstancePools=pools("a", "b", "a"))],
            [f"{WHERE} lists the instance type a in more than one of its InstancePools."],
        ),
        (
            [variant(InstanceType=None, InitialInstanceCount=None)],
            [
                f"{WHERE} must specify exactly one of InstanceType and InstancePools.",
                f"{WHERE} must specify InitialInstanceCount.",
            ],
        ),
    ],
)
def test_a_configuration_as_a_whole(variants: list[dict[str, Any]], expected: list[str]) -> None:
    assert list(config_violations({"ProductionVariants": variants})) == expected


PREFIX = {"PrefixLength": 1024, "ConcurrencyThreshold": 1}


@pytest.mark.parametrize(
    ("strategy", "settings", "expected"),
    [
        ("PREFIX_AWARE", PREFIX, []),
        ("KV_AWARE", None, []),
        *(
            (
                strategy,
                PREFIX,
                [f"{WHERE} may specify PrefixAwareRoutingConfig only with the RoutingStrategy PREFIX_AWARE."],
            )
            for strategy in ("RANDOM", "LEAST_OUTSTANDING_REQUESTS", "KV_AWARE")
        ),
        *(
            (
                "PREFIX_AWARE",
                settings,
                [
                    f"{WHERE} must specify PrefixAwareRoutingConfig.{member} for the RoutingStrategy PREFIX_AWARE."
                    for member in missing
                ],
            )
            for settings, missing in (
                (None, ["PrefixLength", "ConcurrencyThreshold"]),
                ({}, ["PrefixLength", "ConcurrencyThreshold"]),
                ({"PrefixLength": 1024}, ["ConcurrencyThreshold"]),
                ({"ConcurrencyThreshold": 1}, ["PrefixLength"]),
            )
        ),
    ],
)
def test_prefix_aware_routing_needs_both_its_numbers_and_no_other_strategy_has_them(
    strategy: str, settings: dict[str, int] | None, expected: list[str]
) -> None:
    routing = {"RoutingStrategy": strategy} | ({} if settings is None else {"PrefixAwareRoutingConfig": settings})
    assert list(config_violations({"ProductionVariants": [variant(RoutingConfig=routing)]})) == expected


OUTPUT = "AsyncInferenceConfig.OutputConfig"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"S3OutputPath": "s3://b"}, []),
        ({"S3OutputPath": "s3://b/out/", "S3FailurePath": "s3://b/failed"}, []),
        ({"S3OutputPath": "s3://b/a b~"}, []),
        ({"S3OutputPath": "s3://b/\rX-Other: 1"}, [f"{OUTPUT}.S3OutputPath must consist of printable ASCII characters."]),
        (
            {"S3OutputPath": "s3://b/\u65e5", "S3FailurePath": "s3://b/\x7f"},
            [
                f"{OUTPUT}.S3OutputPath must consist of printable ASCII characters.",
                f"{OUTPUT}.S3FailurePath must consist of printable ASCII characters.",
            ],
        ),
        ({"S3OutputPath": f"s3://b/{'k' * 983}", "S3FailurePath": f"s3://b/{'k' * 977}/"}, []),
        (
            {"S3OutputPath": f"s3://b/{'k' * 984}", "S3FailurePath": f"s3://b/{'k' * 978}"},
            [
                f"{OUTPUT}.{member} makes keys of 1025 bytes with the names that are put behind it; a key may hold 1024."
                for member in ("S3OutputPath", "S3FailurePath")
            ],
        ),
        ({}, [f"{OUTPUT} must specify S3OutputPath."]),
        ({"S3FailurePath": "s3://b/failed"}, [f"{OUTPUT} must specify S3OutputPath."]),
        (
            {"S3OutputPath": "https://b/out", "S3FailurePath": "https://b/failed"},
            [f"{OUTPUT}.S3OutputPath must be an s3:// location.", f"{OUTPUT}.S3FailurePath must be an s3:// location."],
        ),
    ],
)
def test_where_asynchronous_results_go(output: dict[str, str], expected: list[str]) -> None:
    params = {"ProductionVariants": [variant()], "AsyncInferenceConfig": {"OutputConfig": output}}
    assert list(config_violations(params)) == expected


@pytest.mark.parametrize(
    ("strategy", "is_refused"), [("RANDOM", False), ("LEAST_OUTSTANDING_REQUESTS", False), ("KV_AWARE", True)]
)
def test_a_strategy_that_a_queue_cannot_follow_is_refused_by_name(strategy: str, *, is_refused: bool) -> None:
    variants = [variant(), variant(VariantName="second", RoutingConfig={"RoutingStrategy": strategy})]
    params = {"ProductionVariants": variants, "AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b"}}}
    found = list(config_violations(params))
    assert [sentence.startswith(f'Production variant "second": RoutingStrategy {strategy} ') for sentence in found] == (
        [True] if is_refused else []
    )


def test_a_key_is_refused_by_name_where_the_store_has_none() -> None:
    params = {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b", "KmsKeyId": "key"}}}
    (sentence,) = encryption_violations(params, store_encrypts=False)
    assert sentence.startswith(f"{OUTPUT}.KmsKeyId has no effect")
    assert list(encryption_violations(params, store_encrypts=True)) == []
    assert list(encryption_violations({}, store_encrypts=False)) == []


def tags(*keys: str) -> list[dict[str, str]]:
    """Tags with these keys."""
    return [{"Key": key, "Value": ""} for key in keys]


NUMBERED = [f"k{number}" for number in range(50)]


@pytest.mark.parametrize(
    ("keys", "existing", "expected"),
    [
        ([], [], []),
        (["a", "A"], [], []),
        (NUMBERED, [], []),
        (NUMBERED, NUMBERED, []),
        (["k0"], NUMBERED, []),
        (["a", "a"], [], ['Tag key "a" is given more than once.']),
        (["aws:x"], [], ['Tag key "aws:x" starts with the reserved prefix aws:.']),
        (["AWS:x"], [], ['Tag key "AWS:x" starts with the reserved prefix aws:.']),
        (["aws"], [], []),
        (["new"], NUMBERED, ["A resource may have 50 tags; this one would have 51."]),
    ],
)
def test_tags_beside_those_that_exist(keys: list[str], existing: list[str], expected: list[str]) -> None:
    assert list(tag_violations(tags(*keys), existing)) == expected
