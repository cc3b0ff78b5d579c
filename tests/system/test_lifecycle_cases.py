"""Public failures of other servers, replayed on lives of endpoints: races, ends in the midst, what is gone, what starts."""

import io
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.system.load import steady
from tests.system.raw import call, invoke
from tests.system.stack import (
    FIRST,
    IMAGE,
    PLENTY,
    SECOND,
    Stack,
    counts_of,
    create_endpoint,
    delete_endpoint,
    in_service,
)

THREADS = 20


@contextmanager
def endpoint(stack: Stack, name: str, **options: Any) -> Iterator[str]:
    """An endpoint in service for as long as the context lasts; what is left of it is deleted at the end."""
    create_endpoint(stack, name, **options)
    try:
        in_service(stack, name)
        yield name
    finally:
        remove(stack, name)


def remove(stack: Stack, name: str) -> None:
    """Delete endpoint, configuration and model, whichever are there, and wait until the endpoint is gone."""
    call(stack, "DeleteEndpoint", {"EndpointName": name})
    stack.wait(lambda: call(stack, "DescribeEndpoint", {"EndpointName": name}).status == 400, 60)
    call(stack, "DeleteEndpointConfig", {"EndpointConfigName": name})
    call(stack, "DeleteModel", {"ModelName": name})


def configure(stack: Stack, name: str, types: tuple[str, ...] = (PLENTY,), **environment: str) -> None:
    """A model and a configuration of it, with this environment in its container."""
    body = {"ModelName": name, "PrimaryContainer": {"Image": IMAGE, "Environment": environment}}
    assert call(stack, "CreateModel", body).status == 200
    pools = [{"InstanceType": each, "Priority": place} for place, each in enumerate(types, start=1)]
    variant = {"VariantName": "main", "ModelName": name, "InitialInstanceCount": 1, "InstancePools": pools}
    created = call(stack, "CreateEndpointConfig", {"EndpointConfigName": name, "ProductionVariants": [variant]})
    assert created.status == 200


def describe(stack: Stack, name: str) -> dict[str, Any]:
    return call(stack, "DescribeEndpoint", {"EndpointName": name}).document


def failure(stack: Stack, name: str, seconds: float = 90) -> str:
    """The reason of an endpoint that fails."""
    stack.wait(lambda: describe(stack, name)["EndpointStatus"] == "Failed", seconds)
    return str(describe(stack, name)["FailureReason"])


def at_once(count: int, work: Any) -> list[Any]:
    """What `work(number)` gives in so many threads that begin together."""
    gate = threading.Barrier(count)

    def begin(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def heal(stack: Stack, name: str) -> None:
    """Let the one instance die and wait until another one answers."""
    assert invoke(stack, name, b"x", "crash").status == 424
    stack.wait(lambda: invoke(stack, name, b"healed", "echo").body == b"healed", 60)


# Two creations of one name


def test_of_twenty_creations_of_one_endpoint_one_wins_and_one_fleet_starts(stack: Stack) -> None:
    configs = [f"race-{number}" for number in range(THREADS)]
    for name in configs:
        configure(stack, name)
    answers = at_once(
        THREADS,
        lambda number: call(stack, "CreateEndpoint", {"EndpointName": "race", "EndpointConfigName": configs[number]}),
    )
    winners = [number for number, answer in enumerate(answers) if answer.status == 200]
    assert len(winners) == 1
    for answer in answers:
        if answer.status != 200:
            assert (answer.status, answer.code) == (400, "ValidationException")
            assert "already existing" in answer.document["message"]
    assert in_service(stack, "race")["EndpointConfigName"] == configs[winners[0]]
    assert stack.live_instances().count(PLENTY) == 1
    for name in ("race", *configs):
        remove(stack, name)


# An update that cannot be (without room for two fleets: tests/workers/fleet/test_deployments.py)


def test_a_failed_update_leaves_the_old_one_serving_and_says_why(stack: Stack) -> None:
    configure(stack, "worse", CHAOS_START="exit:3")
    with endpoint(stack, "stays") as name:
        with steady(stack, name) as load:
            stack.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName="worse")
            stack.wait(lambda: describe(stack, name)["EndpointStatus"] == "InService", 90)
        described = describe(stack, name)
        assert described["EndpointConfigName"] == name
        assert "exited with code 3" in described["FailureReason"]
        assert load.failed == {}
        assert load.answers["200"] > 0
    remove(stack, "worse")


# What an endpoint was made from is gone


def test_an_endpoint_outlives_its_configuration_and_its_model(stack: Stack) -> None:
    configure(stack, "later")
    with endpoint(stack, "orphaned") as name:
        stack.client("sagemaker").delete_endpoint_config(EndpointConfigName=name)
        stack.client("sagemaker").delete_model(ModelName=name)
        assert describe(stack, name)["EndpointConfigName"] == name
        heal(stack, name)
        change = {"VariantName": "main", "DesiredInstanceCount": 2, "DesiredWeight": 2.0}
        changes = {"EndpointName": name, "DesiredWeightsAndCapacities": [change]}
        assert call(stack, "UpdateEndpointWeightsAndCapacities", changes).status == 200
        stack.wait(lambda: describe(stack, name)["ProductionVariants"][0]["CurrentInstanceCount"] == 2, 60)
        in_service(stack, name)
        stack.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName="later")
        stack.client("sagemaker").delete_endpoint_config(EndpointConfigName="later")
        assert in_service(stack, name)["EndpointConfigName"] == "later"
        assert invoke(stack, name, b"x", "echo").body == b"x"
    remove(stack, "later")


# What was just created is there


def test_what_was_created_is_read_at_once_with_its_tags(stack: Stack) -> None:
    tags = [{"Key": "team", "Value": "ml"}]
    for number in range(30):
        name = f"at-once-{number}"
        body = {"ModelName": name, "PrimaryContainer": {"Image": IMAGE}, "Tags": tags}
        arn = call(stack, "CreateModel", body).document["ModelArn"]
        assert call(stack, "DescribeModel", {"ModelName": name}).status == 200
        assert call(stack, "ListTags", {"ResourceArn": arn}).document["Tags"] == tags
        found = call(stack, "ListModels", {"NameContains": name, "MaxResults": 1}).document["Models"]
        assert [each["ModelName"] for each in found] == [name]
        variant = {"VariantName": "main", "ModelName": name, "InitialInstanceCount": 1, "InstanceType": PLENTY}
        config = {"EndpointConfigName": name, "ProductionVariants": [variant], "Tags": tags}
        assert call(stack, "CreateEndpointConfig", config).status == 200
        assert call(stack, "DescribeEndpointConfig", {"EndpointConfigName": name}).status == 200
    for number in range(30):
        call(stack, "DeleteEndpointConfig", {"EndpointConfigName": f"at-once-{number}"})
        call(stack, "DeleteModel", {"ModelName": f"at-once-{number}"})


# Deleting twice


def test_a_second_deletion_breaks_nothing(stack: Stack) -> None:
    create_endpoint(stack, "twice")
    in_service(stack, "twice")
    answers = at_once(2, lambda _: call(stack, "DeleteEndpoint", {"EndpointName": "twice"}))
    answers.append(call(stack, "DeleteEndpoint", {"EndpointName": "twice"}))
    assert {answer.status for answer in answers} <= {200, 400}
    assert any(answer.status == 200 for answer in answers)
    stack.wait(lambda: call(stack, "DescribeEndpoint", {"EndpointName": "twice"}).status == 400, 60)
    gone = call(stack, "DeleteEndpoint", {"EndpointName": "twice"})
    assert (gone.status, gone.code) == (400, "ValidationException")
    assert "Could not find" in gone.document["message"]
    remove(stack, "twice")
    for operation, body in {
        "DeleteModel": {"ModelName": "nobody"},
        "DeleteEndpointConfig": {"EndpointConfigName": "nobody"},
    }.items():
        assert (call(stack, operation, body).status, call(stack, operation, body).code) == (400, "ValidationException")


# A ladder of pools


def test_an_endpoint_lands_on_the_first_pool_with_room_and_stays_there(stack: Stack) -> None:
    types = (FIRST, "ml.g5.xlarge", "ml.g6.xlarge", SECOND)
    with endpoint(stack, "ladder", types=types) as name:
        described = describe(stack, name)
        assert counts_of(described) == {FIRST: 0, "ml.g5.xlarge": 0, "ml.g6.xlarge": 0, SECOND: 1}
        stack.set_capacity(FIRST, 1)
        with pytest.raises(AssertionError):
            stack.wait(lambda: counts_of(describe(stack, name))[FIRST] > 0, 3)
        stack.set_capacity(FIRST, 0)


# The pings of a start


@pytest.mark.parametrize("ping", ["404", "302", "500", "hang", "close"])
def test_only_200_is_a_good_ping_and_what_never_gives_it_can_be_deleted(stack: Stack, ping: str) -> None:
    name = f"ping-{ping}"
    limit = {"ContainerStartupHealthCheckTimeoutInSeconds": 60}
    create_endpoint(stack, name, environment={"CHAOS_PING": ping}, variant=limit)
    stack.wait(lambda: stack.live_instances().count(PLENTY) >= 1)
    with stack.database() as database:
        # As long ago as the time to start allows: the next ping that is not good is the last.
        stack.wait(lambda: _starting(database, name) == 1)
        database.execute(
            "UPDATE fleet_instance SET stage_since = stage_since - interval '61 s', launched_at = launched_at"
            " WHERE endpoint_id = (SELECT id FROM endpoints_endpoint WHERE name = %s)",
            [name],
        )
        stack.wait(lambda: "ping health check" in _told(database, name))
    assert describe(stack, name)["EndpointStatus"] in ("Creating", "Failed")
    remove(stack, name)


def _starting(database: Any, name: str) -> int:
    found = database.execute(
        "SELECT count(*) FROM fleet_instance WHERE stage = 'starting'"
        " AND endpoint_id = (SELECT id FROM endpoints_endpoint WHERE name = %s)",
        [name],
    )
    return int(found.fetchone()[0])


def _told(database: Any, name: str) -> str:
    rows = database.execute("SELECT sentence FROM observability_event WHERE subject_name = %s", [name]).fetchall()
    return " ".join(sentence for (sentence,) in rows)


# What cannot be fetched or run


def archive(kind: str) -> bytes:
    """A model archive that is none, or that would leave its folder."""
    if kind == "empty":
        return b""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        member = tarfile.TarInfo("../../evil")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    return made.getvalue()


@pytest.mark.parametrize("kind", ["image", "missing", "empty", "escaping"])
def test_what_cannot_be_fetched_or_run_fails_soon_and_names_the_cause(stack: Stack, bucket: str, kind: str) -> None:
    name = f"bad-{kind}"
    container: dict[str, Any] = {"Image": "registry.invalid/x:1"} if kind == "image" else {"Image": IMAGE}
    if kind != "image":
        container["ModelDataUrl"] = f"s3://{bucket}/{kind}.tar.gz"
        if kind != "missing":
            stack.client("s3").put_object(Bucket=bucket, Key=f"{kind}.tar.gz", Body=archive(kind))
    assert call(stack, "CreateModel", {"ModelName": name, "PrimaryContainer": container}).status == 200
    variant = {"VariantName": "main", "ModelName": name, "InitialInstanceCount": 1, "InstanceType": PLENTY}
    body = {"EndpointConfigName": name, "ProductionVariants": [variant]}
    assert call(stack, "CreateEndpointConfig", body).status == 200
    assert call(stack, "CreateEndpoint", {"EndpointName": name, "EndpointConfigName": name}).status == 200
    reason = failure(stack, name)
    words = {"image": "registry.invalid/x:1", "missing": "NoSuchKey", "empty": "empty file", "escaping": "outside"}
    assert words[kind].lower() in reason.lower()
    assert not list(stack.data_dir.rglob("evil"))
    remove(stack, name)


# What a container shouts before it leaves


def test_a_reason_is_clean_text_within_bounds_whatever_the_container_printed(stack: Stack) -> None:
    create_endpoint(stack, "shouting", environment={"CHAOS_START": "shout:1"})
    reason = failure(stack, "shouting")
    assert 0 < len(reason) <= 1024
    assert "exited with code 1" in reason
    assert reason.isprintable()
    remove(stack, "shouting")


# All or nothing


@pytest.mark.parametrize(
    "changes",
    [
        [{"VariantName": "main", "DesiredWeight": 5.0}, {"VariantName": "ghost", "DesiredWeight": 1.0}],
        [{"VariantName": "main", "DesiredWeight": 5.0}, {"VariantName": "main", "DesiredWeight": 1.0}],
        [{"VariantName": "main", "DesiredInstanceCount": -1}],
    ],
    ids=["ghost", "twice", "negative"],
)
def test_a_change_that_is_refused_in_part_changes_nothing(stack: Stack, whole: str, changes: list[dict[str, Any]]) -> None:
    before = describe(stack, whole)
    answer = call(
        stack, "UpdateEndpointWeightsAndCapacities", {"EndpointName": whole, "DesiredWeightsAndCapacities": changes}
    )
    assert (answer.status, answer.code) == (400, "ValidationException")
    after = describe(stack, whole)
    assert (after["EndpointStatus"], after["ProductionVariants"]) == ("InService", before["ProductionVariants"])


@pytest.fixture(scope="module")
def whole(stack: Stack) -> Iterator[str]:
    with endpoint(stack, "whole") as name:
        yield name


# In service means that it answers


def test_the_first_call_after_in_service_is_answered(stack: Stack) -> None:
    for number in range(3):
        name = f"first-{number}"
        create_endpoint(stack, name)
        stack.wait(lambda name=name: describe(stack, name)["EndpointStatus"] == "InService", 60)  # type: ignore[misc]
        assert invoke(stack, name, b"now", "echo").body == b"now"
        delete_endpoint(stack, name)


def test_the_first_call_after_an_update_reaches_the_new_version_alone(stack: Stack) -> None:
    with endpoint(stack, "versions", environment={"CHAOS_NAME": "old"}) as name:
        configure(stack, "newer", CHAOS_NAME="new")
        stack.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName="newer")
        stack.wait(lambda: describe(stack, name)["EndpointStatus"] == "InService", 60)
        assert {invoke(stack, name, b"x", "name").body for _ in range(20)} == {b"new"}
    remove(stack, "newer")


# A description is a request


def test_a_description_with_everything_in_it_is_a_good_request(stack: Stack) -> None:
    sagemaker = stack.client("sagemaker")
    sagemaker.create_model(ModelName="fed-back", PrimaryContainer={"Image": IMAGE})
    variant = {
        "VariantName": "main",
        "ModelName": "fed-back",
        "InitialInstanceCount": 2,
        "InitialVariantWeight": 0.25,
        "InstancePools": [{"InstanceType": FIRST, "Priority": 2}, {"InstanceType": SECOND, "Priority": 1}],
        "VariantInstanceProvisionTimeoutInSeconds": 600,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
    }
    output = {"S3OutputPath": "s3://b/out", "S3FailurePath": "s3://b/failed"}
    sagemaker.create_endpoint_config(
        EndpointConfigName="fed-back",
        ProductionVariants=[variant],
        AsyncInferenceConfig={"OutputConfig": output, "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 3}},
    )
    first = sagemaker.describe_endpoint_config(EndpointConfigName="fed-back")
    members = sagemaker.meta.service_model.operation_model("CreateEndpointConfig").input_shape.members
    again = {name: value for name, value in first.items() if name in members and name != "EndpointConfigName"}
    sagemaker.create_endpoint_config(EndpointConfigName="fed-back-2", **again)
    second = sagemaker.describe_endpoint_config(EndpointConfigName="fed-back-2")
    own = ("EndpointConfigName", "EndpointConfigArn", "CreationTime", "ResponseMetadata")
    assert {k: v for k, v in first.items() if k not in own} == {k: v for k, v in second.items() if k not in own}
    for name in ("fed-back", "fed-back-2"):
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
    with pytest.raises(ClientError, match="Could not find"):
        sagemaker.delete_endpoint_config(EndpointConfigName="fed-back")
    sagemaker.delete_model(ModelName="fed-back")
