"""Public failures of other servers, replayed on validation: what is refused, in whose name, and that nothing is stored."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.raw import Answer, call, invoke
from tests.system.stack import IMAGE, PLENTY, SECOND, Stack, create_endpoint, delete_endpoint, in_service

MODEL = "valid"
CONFIG = "valid-config"
REFUSED = (400, "ValidationException")
GOOD_NAMES = ["a" * 63, "a--b", "A1", "0"]
BAD_NAMES = ["a" * 64, "-a", "a-", "a_b", "a.b", "", "\uff11abc", "\u0661", "abc\n", " abc", "ENTER MODEL NAME"]
TYPES = ("ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.large", "ml.c5.large", "ml.g5.xlarge", "ml.c5.xlarge")


@pytest.fixture(scope="module")
def model(stack: Stack) -> Iterator[str]:
    create = {"ModelName": MODEL, "PrimaryContainer": {"Image": IMAGE}}
    assert call(stack, "CreateModel", create).status == 200
    yield MODEL
    call(stack, "DeleteModel", {"ModelName": MODEL})


@pytest.fixture
def configure(stack: Stack, model: str) -> Iterator[Callable[..., Answer]]:
    """Create a configuration of one variant with these members, None = left out; what was stored is deleted again."""

    def ask(*, top: dict[str, Any] | None = None, **members: Any) -> Answer:
        whole = {"VariantName": "main", "ModelName": model, "InitialInstanceCount": 1, "InstanceType": PLENTY, **members}
        variant = {name: value for name, value in whole.items() if value is not ...}
        return call(
            stack, "CreateEndpointConfig", {"EndpointConfigName": CONFIG, "ProductionVariants": [variant], **(top or {})}
        )

    yield ask
    call(stack, "DeleteEndpointConfig", {"EndpointConfigName": CONFIG})


def is_stored(stack: Stack) -> bool:
    return call(stack, "DescribeEndpointConfig", {"EndpointConfigName": CONFIG}).status == 200


def pools(priorities: list[Any]) -> list[dict[str, Any]]:
    return [{"InstanceType": TYPES[place], "Priority": each} for place, each in enumerate(priorities)]


def outcome(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


def message(answer: Answer) -> str:
    return str(answer.document["message"])


# Names


@pytest.mark.parametrize("name", GOOD_NAMES, ids=ascii)
def test_a_name_at_the_edge_of_its_pattern_is_taken(stack: Stack, model: str, name: str) -> None:
    answer = call(stack, "CreateModel", {"ModelName": name, "PrimaryContainer": {"Image": IMAGE}})
    assert answer.status == 200
    assert call(stack, "DeleteModel", {"ModelName": name}).status == 200


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_name_beyond_its_pattern_is_refused_in_every_place_by_its_member(stack: Stack, model: str, name: str) -> None:
    variant = {"VariantName": "main", "ModelName": MODEL, "InitialInstanceCount": 1, "InstanceType": PLENTY}
    asked = {
        "modelName": ("CreateModel", {"ModelName": name, "PrimaryContainer": {"Image": IMAGE}}),
        "endpointName": ("CreateEndpoint", {"EndpointName": name, "EndpointConfigName": "nope"}),
        "endpointConfigName": ("CreateEndpointConfig", {"EndpointConfigName": name, "ProductionVariants": [variant]}),
    }
    for member in ("VariantName", "ModelName"):
        changed = {"EndpointConfigName": CONFIG, "ProductionVariants": [{**variant, member: name}]}
        asked[f"productionVariants.1.member.{member[0].lower()}{member[1:]}"] = ("CreateEndpointConfig", changed)
    for where, (operation, body) in asked.items():
        answer = call(stack, operation, body)
        assert outcome(answer) == REFUSED
        assert where in message(answer)
    assert not is_stored(stack)


# Types and pools


@pytest.mark.parametrize(
    ("members", "is_taken"),
    [
        ({"InstancePools": pools([1])}, False),
        ({"InstanceType": ...}, False),
        ({"InstancePools": None}, True),
        ({"InstancePools": []}, False),
        (
            {
                "InstanceType": ...,
                "InstancePools": pools([1]),
                "ServerlessConfig": {"MaxConcurrency": 1, "MemorySizeInMB": 1024},
            },
            False,
        ),
    ],
    ids=["both", "neither", "null", "empty", "serverless"],
)
def test_either_a_type_or_pools(
    stack: Stack, configure: Callable[..., Answer], members: dict[str, Any], is_taken: bool
) -> None:
    answer = configure(**members)
    if is_taken:
        assert answer.status == 200
    else:
        assert outcome(answer) == REFUSED
        assert "nstancePools" in message(answer) or "serverlessConfig" in message(answer)
    assert is_stored(stack) == is_taken


# Of equal priorities the order of the list decides, so they leave nothing open and are taken.
@pytest.mark.parametrize("priorities", [[1, 3, 5], [3, 1, 2], [2, 3], [1, 1], [1, 2, 2]], ids=str)
def test_gaps_order_and_ties_of_priorities_are_kept_as_sent(
    stack: Stack, configure: Callable[..., Answer], priorities: list[int]
) -> None:
    assert configure(InstanceType=..., InstancePools=pools(priorities)).status == 200
    described = call(stack, "DescribeEndpointConfig", {"EndpointConfigName": CONFIG}).document
    shown = described["ProductionVariants"][0]["InstancePools"]
    assert [(each["InstanceType"], each["Priority"]) for each in shown] == list(zip(TYPES, priorities, strict=False))


@pytest.mark.parametrize("priorities", [[0], [6], [1, 2, 3, 4, 5, 5], ["1"], [True], [1.5], [None]], ids=str)
def test_priorities_out_of_range_or_of_another_kind_are_refused(
    stack: Stack, configure: Callable[..., Answer], priorities: list[Any]
) -> None:
    answer = configure(InstanceType=..., InstancePools=pools(priorities))
    assert answer.status == 400
    assert not is_stored(stack)


# The time to look for capacity


@pytest.mark.parametrize(("seconds", "is_taken"), [(299, False), (300, True), (3600, True), (3601, False), ("600", False)])
def test_the_time_for_provisioning_has_bounds(
    stack: Stack, configure: Callable[..., Answer], seconds: Any, is_taken: bool
) -> None:
    answer = configure(InstanceType=..., InstancePools=pools([1, 2]), VariantInstanceProvisionTimeoutInSeconds=seconds)
    assert (answer.status == 200) == is_taken
    assert is_stored(stack) == is_taken


# What is not there


def test_a_configuration_of_a_model_that_is_not_there_is_refused_by_name(
    stack: Stack, configure: Callable[..., Answer]
) -> None:
    ghostly = [{**pools([1])[0], "ModelNameOverride": "ghost"}]
    for answer in (configure(ModelName="ghost"), configure(InstanceType=..., InstancePools=ghostly)):
        assert outcome(answer) == REFUSED
        assert "Could not find model" in message(answer)
        assert "ghost" in message(answer)
    assert not is_stored(stack)


def test_an_endpoint_of_what_is_gone_is_refused_at_once(stack: Stack, configure: Callable[..., Answer]) -> None:
    unknown = call(stack, "CreateEndpoint", {"EndpointName": "never", "EndpointConfigName": "ghost"})
    assert outcome(unknown) == REFUSED
    assert "Could not find endpoint configuration" in message(unknown)
    assert call(stack, "CreateModel", {"ModelName": "going", "PrimaryContainer": {"Image": IMAGE}}).status == 200
    assert configure(ModelName="going").status == 200
    assert call(stack, "DeleteModel", {"ModelName": "going"}).status == 200
    answer = call(stack, "CreateEndpoint", {"EndpointName": "never", "EndpointConfigName": CONFIG})
    assert outcome(answer) == REFUSED
    assert "going" in message(answer)
    assert outcome(call(stack, "DescribeEndpoint", {"EndpointName": "never"})) == REFUSED


# The list of variants and its numbers


@pytest.mark.parametrize(("count", "is_taken"), [(0, False), (10, True), (11, False)])
def test_from_one_to_ten_variants(stack: Stack, configure: Callable[..., Answer], count: int, is_taken: bool) -> None:
    variant = {"ModelName": MODEL, "InitialInstanceCount": 1, "InstanceType": PLENTY}
    variants = [{**variant, "VariantName": f"v{number}"} for number in range(count)]
    assert (configure(top={"ProductionVariants": variants}).status == 200) == is_taken
    assert is_stored(stack) == is_taken


def test_two_variants_of_one_name_are_refused(stack: Stack, configure: Callable[..., Answer]) -> None:
    variant = {"VariantName": "same", "ModelName": MODEL, "InitialInstanceCount": 1, "InstanceType": PLENTY}
    assert outcome(configure(top={"ProductionVariants": [variant, variant]})) == REFUSED
    assert not is_stored(stack)


@pytest.mark.parametrize("count", ["1", 1.5, True, -1, None], ids=repr)
def test_a_count_that_is_no_whole_number_is_refused(stack: Stack, configure: Callable[..., Answer], count: Any) -> None:
    assert configure(InitialInstanceCount=count).status == 400
    assert not is_stored(stack)


def test_a_weight_left_out_is_one(stack: Stack, configure: Callable[..., Answer]) -> None:
    assert configure().status == 200
    [shown] = call(stack, "DescribeEndpointConfig", {"EndpointConfigName": CONFIG}).document["ProductionVariants"]
    assert shown["InitialVariantWeight"] == 1.0


# Tags


def tags(count: int, first: int = 0) -> list[dict[str, str]]:
    return [{"Key": f"k{number}", "Value": ""} for number in range(first, first + count)]


def test_fifty_tags_and_not_one_more(stack: Stack, model: str) -> None:
    body = {"ModelName": "tagged", "PrimaryContainer": {"Image": IMAGE}}
    assert call(stack, "CreateModel", {**body, "Tags": tags(51)}).status == 400
    assert outcome(call(stack, "DescribeModel", {"ModelName": "tagged"})) == REFUSED
    arn = call(stack, "CreateModel", {**body, "Tags": tags(50)}).document["ModelArn"]
    assert outcome(call(stack, "AddTags", {"ResourceArn": arn, "Tags": tags(2, 49)})) == REFUSED
    assert call(stack, "AddTags", {"ResourceArn": arn, "Tags": [{"Key": "k1", "Value": "new"}]}).status == 200
    listed = call(stack, "ListTags", {"ResourceArn": arn, "MaxResults": 50}).document["Tags"]
    assert len(listed) == 50
    assert {"Key": "k1", "Value": "new"} in listed
    assert call(stack, "DeleteTags", {"ResourceArn": arn, "TagKeys": ["nobody"]}).status == 200
    assert call(stack, "DeleteModel", {"ModelName": "tagged"}).status == 200
    assert call(stack, "ListTags", {"ResourceArn": arn}).status == 400


@pytest.mark.parametrize(
    ("key", "value", "is_taken"),
    [
        ("k" * 128, "v" * 256, True),
        ("k" * 129, "v", False),
        ("k", "v" * 257, False),
        ("k", "", True),
        ("aws:x", "v", False),
        ("AWS:x", "v", False),
        ("k", "\U0001f600", False),
        ("k", "{}", False),
        ("k", "a b_.:/=+-@c", True),
    ],
    ids=["longest", "long-key", "long-value", "empty", "reserved", "reserved-upper", "emoji", "braces", "signs"],
)
def test_a_tag_keeps_to_its_letters(stack: Stack, model: str, key: str, value: str, is_taken: bool) -> None:
    body = {"ModelName": "tagged", "PrimaryContainer": {"Image": IMAGE}, "Tags": [{"Key": key, "Value": value}]}
    answer = call(stack, "CreateModel", body)
    call(stack, "DeleteModel", {"ModelName": "tagged"})
    assert (answer.status == 200) == is_taken
    assert is_taken or outcome(answer) == REFUSED


def test_one_key_twice_in_a_call_is_refused(stack: Stack, model: str) -> None:
    body = {"ModelName": "tagged", "PrimaryContainer": {"Image": IMAGE}, "Tags": [*tags(1), *tags(1)]}
    assert outcome(call(stack, "CreateModel", body)) == REFUSED


# Filters come before pages


@pytest.fixture(scope="module")
def many(stack: Stack, model: str) -> Iterator[list[str]]:
    """Five configurations that do not match, around one that does."""
    names = ["listing-a", "listing-b", "listing-c", "findme-d", "listing-e", "listing-f"]
    variant = {"VariantName": "main", "ModelName": model, "InitialInstanceCount": 1, "InstanceType": PLENTY}
    for name in names:
        created = call(stack, "CreateEndpointConfig", {"EndpointConfigName": name, "ProductionVariants": [variant]})
        assert created.status == 200
    yield names
    for name in names:
        call(stack, "DeleteEndpointConfig", {"EndpointConfigName": name})


@pytest.mark.parametrize("sort_by", ["Name", "CreationTime"])
@pytest.mark.parametrize("order", ["Ascending", "Descending"])
@pytest.mark.parametrize("part", ["findme", "FINDME"])
def test_a_match_is_on_the_first_page_however_it_is_sorted(
    stack: Stack, many: list[str], sort_by: str, order: str, part: str
) -> None:
    asked = {"NameContains": part, "SortBy": sort_by, "SortOrder": order, "MaxResults": 1}
    found = call(stack, "ListEndpointConfigs", asked).document
    assert [each["EndpointConfigName"] for each in found["EndpointConfigs"]] == ["findme-d"]


@pytest.mark.parametrize("part", ["%", "_", "a.b", "listing%a", "l_sting"])
def test_no_sign_stands_for_others(stack: Stack, many: list[str], part: str) -> None:
    answer = call(stack, "ListEndpointConfigs", {"NameContains": part})
    assert answer.status == 400 or answer.document["EndpointConfigs"] == []


# The asynchronous part comes back as it was sent


@pytest.mark.parametrize("path", ["s3://b", "s3://b/", "s3://b/p", "s3://b/p/"])
def test_the_asynchronous_part_is_echoed_and_its_path_joined_by_one_slash(
    stack: Stack, configure: Callable[..., Answer], path: str
) -> None:
    output = {"S3OutputPath": path, "S3FailurePath": "s3://b/failed"}
    wanted = {"OutputConfig": output, "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 3}}
    assert configure(top={"AsyncInferenceConfig": wanted}).status == 200
    assert call(stack, "CreateEndpoint", {"EndpointName": CONFIG, "EndpointConfigName": CONFIG}).status == 200
    endpoint = in_service(stack, CONFIG)
    config = call(stack, "DescribeEndpointConfig", {"EndpointConfigName": CONFIG}).document
    accepted = stack.client("sagemaker-runtime").invoke_endpoint_async(EndpointName=CONFIG, Body=b"x")
    call(stack, "DeleteEndpoint", {"EndpointName": CONFIG})
    stack.wait(lambda: call(stack, "DescribeEndpoint", {"EndpointName": CONFIG}).status == 400)
    assert config["AsyncInferenceConfig"] == wanted
    assert endpoint["AsyncInferenceConfig"] == wanted
    folder, _, name = accepted["OutputLocation"].rpartition("/")
    assert folder == path.rstrip("/")
    assert name


@pytest.mark.parametrize(
    "part",
    [
        {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 0}},
        {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 1001}},
        {"OutputConfig": {"S3OutputPath": "s3:///x"}},
        {"OutputConfig": {"S3OutputPath": "http://b/x"}},
    ],
    ids=["none-at-once", "too-many-at-once", "no-bucket", "not-s3"],
)
def test_an_asynchronous_part_that_cannot_work_is_refused(
    stack: Stack, configure: Callable[..., Answer], part: dict[str, Any]
) -> None:
    whole = {"OutputConfig": {"S3OutputPath": "s3://b/p"}, **part}
    assert outcome(configure(top={"AsyncInferenceConfig": whole})) == REFUSED
    assert not is_stored(stack)


# The wrong kind of call


ODD_VALUES = {"TWO_LINES": "one\ntwo", "NOTHING": "", "SPACES": "  a  "}


@pytest.fixture(scope="module")
def real_time(stack: Stack) -> Iterator[str]:
    create_endpoint(stack, "kind", types=(SECOND,), environment=ODD_VALUES)
    in_service(stack, "kind")
    yield "kind"
    delete_endpoint(stack, "kind")


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"X_Amzn_SageMaker_Target_Variant": "nope"}, "nope"),
        ({"X_Amzn_SageMaker_Target_Model": "m.tar.gz"}, "TargetModel"),
    ],
    ids=["variant", "model"],
)
def test_a_target_that_is_not_there_is_refused_before_the_model_is_asked(
    stack: Stack, real_time: str, headers: dict[str, str], word: str
) -> None:
    answer = invoke(stack, real_time, b"x", "crash", **headers)
    assert outcome(answer) == (400, "ValidationError")
    assert word.lower() in answer.document["Message"].lower()
    assert invoke(stack, real_time, b"x", "echo").body == b"x"


# The container's definition


@pytest.mark.parametrize(
    ("container", "is_taken"),
    [
        ({"Environment": {f"K{n}": "v" for n in range(100)}}, True),
        ({"Environment": {f"K{n}": "v" for n in range(101)}}, False),
        ({"Environment": {"K": "v" * 1024}}, True),
        ({"Environment": {"K": "v" * 1025}}, False),
        ({"Environment": {"1BAD": "v"}}, False),
        ({"Environment": {"A-B": "v"}}, False),
        ({"Environment": {"K": ""}}, True),
        ({"Image": "i" * 255}, True),
        ({"Image": "i" * 256}, False),
        ({"Image": "a b"}, False),
        ({"Image": f"reg.example.com/a/b@sha256:{'0' * 64}"}, True),
        ({"ModelDataUrl": "s3://b/k"}, True),
        ({"ModelDataUrl": "s3://b/" + "k" * 1018}, False),
    ],
    ids=[
        "100-variables",
        "101-variables",
        "1024-characters",
        "1025-characters",
        "digit-first",
        "hyphen",
        "empty-value",
        "long-image",
        "longer-image",
        "space-in-image",
        "digest",
        "data",
        "long-data",
    ],
)
def test_a_container_s_definition_has_limits(stack: Stack, model: str, container: dict[str, Any], is_taken: bool) -> None:
    answer = call(stack, "CreateModel", {"ModelName": "edges", "PrimaryContainer": {"Image": IMAGE, **container}})
    call(stack, "DeleteModel", {"ModelName": "edges"})
    assert (answer.status == 200) == is_taken
    assert is_taken or outcome(answer) == REFUSED


@pytest.mark.parametrize(
    "members",
    [
        {"PrimaryContainer": {"Image": IMAGE}, "Containers": [{"Image": IMAGE}]},
        {},
        {"PrimaryContainer": {"Image": IMAGE}, "ExecutionRoleArn": "x"},
    ],
    ids=["both", "neither", "role"],
)
def test_a_model_is_one_container_with_a_role_that_could_be_one(stack: Stack, model: str, members: dict[str, Any]) -> None:
    assert outcome(call(stack, "CreateModel", {"ModelName": "edges", **members})) == REFUSED
    assert outcome(call(stack, "DescribeModel", {"ModelName": "edges"})) == REFUSED


def test_odd_values_reach_the_container_as_they_are(stack: Stack, real_time: str) -> None:
    wanted = {f"{name}={value}".encode() for name, value in ODD_VALUES.items()}
    assert any(wanted <= set(_variables(path)) for path in Path("/proc").glob("[0-9]*/environ"))


def _variables(environ: Path) -> list[bytes]:
    """A process's environment; of one that has just ended, nothing."""
    try:
        return environ.read_bytes().split(b"\0")
    except OSError:
        return []
