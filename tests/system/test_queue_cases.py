"""Public failures of other queues, replayed on a running Headrace: what is accepted is done once, whatever fails."""

import asyncio
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from botocore.config import Config
from botocore.exceptions import ClientError

from tests import aws
from tests.fakes.doors import Refusal, door_to
from tests.system.asynchronous import (
    accept,
    accept_many,
    calls_of,
    hearing,
    most_at_once,
    outcome,
    queue_of,
    states,
    times_called,
)
from tests.system.doubles import double
from tests.system.stack import PLENTY, Stack, create_endpoint, delete_endpoint, in_service, objects_of
from workers.invocations.queue import LEASE_SECONDS
from workers.invocations.quick_put import SMALL_BYTES
from workers.invocations.store import PART_BYTES, Store

NAME = "queue-cases"
BURST = 200


@pytest.fixture(scope="module")
def endpoint(stack: Stack, bucket: str, journal: Path) -> Iterator[str]:
    """Takes one call at a time."""
    with queue_of(stack, NAME, bucket, journal) as name:
        yield name


# What is accepted is done, and done once.


def test_a_burst_is_accepted_and_done_whole_each_request_once(stack: Stack, bucket: str, journal: Path) -> None:
    with queue_of(stack, "burst", bucket, journal, most=100), hearing(stack, "worker") as told:
        accepted = accept_many(stack, "burst", BURST)
        stack.wait(lambda: states(stack, "burst") == {"completed": BURST}, 60)
        assert times_called(journal, accepted) == [1] * BURST
        for number in (0, BURST - 1):
            assert objects_of(stack, accepted[number]) == (b"%d" % number, None)
        assert "DoesNotExist" not in told()


def test_a_call_far_longer_than_its_lease_is_made_once(stack: Stack, endpoint: str, journal: Path) -> None:
    accepted = accept(stack, NAME, b"long", f"hang:{LEASE_SECONDS + 3}")
    assert outcome(stack, accepted) == (b"long", None)
    assert times_called(journal, [accepted]) == [1]


def test_a_killed_worker_neither_leaks_a_place_nor_gives_it_twice(stack: Stack, endpoint: str, journal: Path) -> None:
    accepted = [accept(stack, NAME, b"%d" % number, "delay:0.3") for number in range(10)]
    stack.wait(lambda: calls_of(journal, accepted[2:3]))
    stack.kill("worker")
    assert [outcome(stack, each, 90) for each in accepted] == [(b"%d" % number, None) for number in range(10)]
    assert most_at_once(journal, accepted) == 1
    calls = times_called(journal, accepted)
    assert (min(calls), sum(calls)) in ((1, 10), (1, 11)), "only what ran in the killed worker is asked again"


def test_what_is_queued_while_an_endpoint_is_updated_is_done_once_where_it_was_promised(
    stack: Stack, endpoint: str, bucket: str, journal: Path
) -> None:
    sagemaker = stack.client("sagemaker")
    config = sagemaker.describe_endpoint_config(EndpointConfigName=NAME)
    elsewhere = config["AsyncInferenceConfig"]
    elsewhere["OutputConfig"]["S3OutputPath"] = f"s3://{bucket}/out-next"
    sagemaker.create_endpoint_config(
        EndpointConfigName=f"{NAME}-next",
        ProductionVariants=config["ProductionVariants"],
        AsyncInferenceConfig=elsewhere,
    )
    with stack.standing_still("worker"):  # so that they are queued when the update begins, whoever is slow
        accepted = [accept(stack, NAME, b"%d" % number, "delay:0.2") for number in range(24)]
        sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=f"{NAME}-next")
        assert states(stack, NAME)["queued"] == 24
    in_service(stack, NAME)
    after = accept(stack, NAME, b"after")
    assert after["OutputLocation"].startswith(f"s3://{bucket}/out-next/")
    assert {each["OutputLocation"].rpartition("/")[0] for each in accepted} == {f"s3://{bucket}/out"}
    assert [outcome(stack, each) for each in accepted] == [(b"%d" % number, None) for number in range(24)]
    assert outcome(stack, after) == (b"after", None)
    assert times_called(journal, [*accepted, after]) == [1] * 25
    sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
    in_service(stack, NAME)
    sagemaker.delete_endpoint_config(EndpointConfigName=f"{NAME}-next")


@pytest.mark.parametrize("kind", ["nul", "nonutf8"])
def test_words_that_no_column_can_hold_end_as_a_failure_and_the_queue_goes_on(
    stack: Stack, endpoint: str, kind: str
) -> None:
    failing, behind = accept(stack, NAME, b"x", f"http:500:{kind}"), accept(stack, NAME, b"next")
    assert outcome(stack, behind) == (b"next", None)
    output, failure = outcome(stack, failing)
    assert output is None
    assert failure is not None
    assert b"server error (500)" in failure
    assert b"\x00" not in failure
    query = "SELECT state FROM invocations_asyncinvocation WHERE inference_id = %s"
    with stack.database() as database:
        stack.wait(lambda: database.execute(query, [failing["InferenceId"]]).fetchall() == [("failed",)])


def test_a_backlog_of_hours_keeps_no_other_endpoint_waiting(stack: Stack, bucket: str) -> None:
    one_at_a_time = {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 1}}
    create_endpoint(stack, "backlog", bucket=bucket, asynchronous=one_at_a_time)
    in_service(stack, "backlog")
    accept_many(stack, "backlog", BURST, "hang:600")
    create_endpoint(stack, "passer-by", bucket=bucket)
    in_service(stack, "passer-by")
    assert outcome(stack, accept(stack, "passer-by", b"mine")) == (b"mine", None)
    delete_endpoint(stack, "passer-by")
    assert states(stack, "backlog") == {"running": 1, "queued": BURST - 1}
    delete_endpoint(stack, "backlog")
    stack.wait(lambda: states(stack, "backlog") == {"failed": BURST}, 60)


# The broker and the scheduler.


def test_a_broker_that_starts_over_again_and_again_loses_nothing(stack: Stack, endpoint: str, bucket: str) -> None:
    create_endpoint(stack, "unrung", bucket=bucket, environment={"CHAOS_START": "slow:1"})
    accepted = []
    for number in range(3):
        stack.wait(lambda: stack.kill("valkey"))
        accepted += [accept(stack, NAME, b"%d-%d" % (number, place)) for place in range(5)]
    expected = [(b"%d-%d" % (number, place), None) for number in range(3) for place in range(5)]
    assert [outcome(stack, each) for each in accepted] == expected
    in_service(stack, "unrung")
    assert outcome(stack, accept(stack, "unrung", b"heard")) == (b"heard", None)
    delete_endpoint(stack, "unrung")
    stack.wait(lambda: stack.is_ready)


@pytest.mark.parametrize("policy", ["noeviction", "allkeys-lru"])
def test_a_broker_without_memory_loses_nothing(stack: Stack, endpoint: str, bucket: str, policy: str) -> None:
    name, body = f"full-{policy}", os.urandom(128_000)
    broker = stack.broker()
    broker.set("kept", "yes")
    broker.config_set("maxmemory-policy", policy)
    broker.config_set("maxmemory", "1")
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            broker.set("more", "x")
        assert (broker.get("kept") is None) == (policy == "allkeys-lru")
        accepted = [accept(stack, NAME, body) for _ in range(5)]
        create_endpoint(stack, name, bucket=bucket)
        assert [outcome(stack, each) for each in accepted] == [(body, None)] * 5
        in_service(stack, name)
    finally:
        broker.config_set("maxmemory", "0")
        broker.config_set("maxmemory-policy", "noeviction")
        broker.delete("kept")
    assert outcome(stack, accept(stack, name, b"after")) == (b"after", None)
    delete_endpoint(stack, name)


def test_two_schedulers_start_and_end_what_one_would(stack: Stack) -> None:
    ever = (
        "SELECT count(*) FROM fleet_instance i JOIN endpoints_endpoint e ON e.id = i.endpoint_id"
        " WHERE e.name = 'twice-scheduled'"
    )
    sagemaker = stack.client("sagemaker")
    with double(stack, "scheduler"), stack.database() as database:
        create_endpoint(stack, "twice-scheduled", count=3)
        in_service(stack, "twice-scheduled")
        before = stack.live_instances().count(PLENTY)
        assert database.execute(ever).fetchall() == [(3,)]
        change = {"VariantName": "main", "DesiredInstanceCount": 1}
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName="twice-scheduled", DesiredWeightsAndCapacities=[change]
        )
        in_service(stack, "twice-scheduled")
        stack.wait(lambda: stack.live_instances().count(PLENTY) == before - 2)
        assert database.execute(ever).fetchall() == [(3,)]
        delete_endpoint(stack, "twice-scheduled")
        stack.wait(lambda: stack.live_instances().count(PLENTY) == before - 3)


# A store that knows S3 as it was before the newer checksums.

NEWER = ("x-amz-checksum-", "x-amz-sdk-checksum-", "x-amz-trailer", "x-amz-decoded-content-length", "transfer-encoding")


def newer_parts(headers: Mapping[str, str]) -> list[str]:
    """What of a request such a store does not know."""
    found = [name for name in headers if name.startswith(NEWER)]
    return found + [value for value in headers.values() if value.startswith("STREAMING-") or "aws-chunked" in value]


@contextmanager
def old_store(stack: Stack) -> Iterator[tuple[str, list[str]]]:
    """A way to the embedded store on which what is newer is refused; yields its address and what was."""
    refused: list[str] = []

    def refuse(method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        refused.extend(found := newer_parts(headers))
        return (501, b"<Error><Code>NotImplemented</Code></Error>") if found else None

    ports = json.loads((stack.data_dir / "ports.json").read_text())
    with door_to(ports["store"], refuse) as door:
        yield door.url, refused


@pytest.mark.parametrize("size", [0, 1000, SMALL_BYTES + 1, PART_BYTES + 1])
def test_a_store_that_knows_no_newer_checksums_keeps_outputs_of_every_size(
    stack: Stack, bucket: str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for name, value in stack.credentials.items():
        if name != "AWS_ENDPOINT_URL":
            monkeypatch.setenv(name, value)
    body, location, invocation_id = os.urandom(size), f"s3://{bucket}/old/{uuid4().hex}", uuid4()
    with old_store(stack) as (url, refused):

        async def work() -> bool:
            store = Store(url, "us-east-1")
            try:
                await store.put(location, io.BytesIO(body), "text/plain", invocation_id)
                assert b"".join(store.chunks(location, 1 << 20)) == body
                return await store.has(location, invocation_id)
            finally:
                store.close()

        assert asyncio.run(work())
        assert refused == []
        today = aws.client("s3", endpoint_url=url, config=Config(retries={"total_max_attempts": 1}))
        with pytest.raises(ClientError, match="NotImplemented"):  # such a store minds what SDKs do unasked
            today.put_object(Bucket=bucket, Key="any", Body=b"x")
