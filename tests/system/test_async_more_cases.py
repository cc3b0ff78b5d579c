"""More public failures of other queues, replayed on a running Headrace: names, failures, workers, brokers, backlogs."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import WaiterError

from tests.contract.waiting import moving
from tests.system.asynchronous import (
    Accepted,
    accept,
    accept_many,
    calls_of,
    found,
    hearing,
    most_at_once,
    outcome,
    queue_of,
    states,
    times_called,
)
from tests.system.doubles import double
from tests.system.raw import ask, invoke
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service, objects_of
from workers.fleet.plan import PING_SECONDS
from workers.invocations.queue import LEASE_SECONDS

NAME = "more-cases"
BACKLOG = 10_000
START_SECONDS = 5
"""Within which an operation has begun, whatever else is queued."""


@pytest.fixture(scope="module")
def endpoint(stack: Stack, bucket: str, journal: Path) -> Iterator[str]:
    """Takes one call at a time."""
    with queue_of(stack, NAME, bucket, journal) as name:
        yield name


# Names of requests and of answers.


@pytest.mark.parametrize("inference_id", ["order 66", "a/b", "..", "../../x", "a~b", "x" * 64])
def test_an_inference_id_used_again_names_no_place(stack: Stack, endpoint: str, bucket: str, inference_id: str) -> None:
    first = accept(stack, NAME, b"first", InferenceId=inference_id)
    assert outcome(stack, first) == (b"first", None)
    second, third = (accept(stack, NAME, body, InferenceId=inference_id) for body in (b"second", b"third"))
    assert [outcome(stack, each) for each in (second, third, first)] == [
        (b"second", None),
        (b"third", None),
        (b"first", None),
    ]
    for each in (first, second, third):
        assert each["InferenceId"] == inference_id
        assert each["OutputLocation"].rpartition("/")[0] == f"s3://{bucket}/out"


def test_two_answers_to_one_file_name_are_never_taken_for_each_other(stack: Stack, endpoint: str) -> None:
    """The later answer takes the place; of the earlier one Headrace says that it is gone."""
    first = accept(stack, NAME, b"first", Filename="same.json", InferenceId="same-1")
    assert outcome(stack, first) == (b"first", None)
    second = accept(stack, NAME, b"second", Filename="same.json", InferenceId="same-2")
    assert first["OutputLocation"] == second["OutputLocation"]
    stack.wait(lambda: found(stack, second)["Status"] == "completed")
    assert objects_of(stack, second) == (b"second", None)
    told = ask(stack, "GET", f"/api/v1/async-requests/{found(stack, first)['RequestId']}/output")
    assert told.code == "ResourceNotFound"
    assert "no longer at" in told.document["message"]


# Failures.


def test_without_a_failure_path_a_failure_is_told_in_the_request(stack: Stack, endpoint: str, bucket: str) -> None:
    sagemaker, name = stack.client("sagemaker"), "no-path"
    sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=sagemaker.describe_endpoint_config(EndpointConfigName=NAME)["ProductionVariants"],
        AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": f"s3://{bucket}/out"}},
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    in_service(stack, name)
    accepted = accept(stack, name, b"x", "http:400")
    assert "FailureLocation" not in accepted
    row = stack.wait(lambda: (row := found(stack, accepted))["Status"] == "failed" and row)
    assert (row["FailureKind"], row.get("FailureLocation", "")) == ("model_client_error", "")
    assert "the model says no" in row["FailureReason"]
    with pytest.raises(WaiterError, match="Max attempts exceeded"):
        _result(stack, accepted, delay=1, max_attempts=2)
    sagemaker.delete_endpoint(EndpointName=name)
    sagemaker.delete_endpoint_config(EndpointConfigName=name)


def test_clients_that_poll_the_output_get_it(stack: Stack, endpoint: str) -> None:
    assert _result(stack, accept(stack, NAME, b"polled"), delay=1, max_attempts=20) == b"polled"


def _result(stack: Stack, accepted: Accepted, delay: int, max_attempts: int) -> bytes:
    """The answer, as published predictors wait for it: by S3's own waiter at the output location."""
    store = stack.client("s3")
    bucket, _, key = accepted["OutputLocation"].removeprefix("s3://").partition("/")
    store.get_waiter("object_exists").wait(
        Bucket=bucket, Key=key, WaiterConfig={"Delay": delay, "MaxAttempts": max_attempts}
    )
    body: bytes = store.get_object(Bucket=bucket, Key=key)["Body"].read()
    return body


def test_failing_requests_block_none_of_those_behind_them(stack: Stack, endpoint: str, journal: Path) -> None:
    failing = [accept(stack, NAME, b"x", "http:500") for _ in range(5)]
    deadly = accept(stack, NAME, b"x", "crash")
    fine = [accept(stack, NAME, b"%d" % number) for number in range(14)]
    assert [outcome(stack, each, 90) for each in fine] == [(b"%d" % number, None) for number in range(14)]
    for each in failing:
        output, failure = outcome(stack, each, 90)
        assert output is None
        assert b'server error (500) from model with message "the model says no"' in (failure or b"")
    output, failure = outcome(stack, deadly, 120)
    assert output is None
    assert b"It was tried 3 times." in (failure or b"")
    assert times_called(journal, fine) == [1] * 14
    put_back = _put_back(stack)  # for a moment, having found the instance dead
    called = [line["inference_id"] for line in calls_of(journal, fine) if line["event"] == "received"]
    in_order = [each["InferenceId"] for each in fine]
    assert [each for each in called if each not in put_back] == [each for each in in_order if each not in put_back]
    in_service(stack, NAME)


def _put_back(stack: Stack) -> set[str]:
    """The requests that went back into the queue at least once."""
    query = "SELECT inference_id FROM invocations_asyncinvocation WHERE endpoint_name = %s AND timeline::text LIKE %s"
    with stack.database() as database:
        return {found for (found,) in database.execute(query, [NAME, "%retried%"]).fetchall()}


# Several workers.


def test_of_several_workers_one_is_killed_and_no_place_is_given_twice(stack: Stack, endpoint: str, journal: Path) -> None:
    with double(stack, "worker") as one, double(stack, "worker") as other:
        accepted = [accept(stack, NAME, b"%d" % number, "delay:0.5") for number in range(20)]
        for place in (4, 8):
            stack.wait(lambda place=place: calls_of(journal, accepted[place : place + 1]))
            os.kill(_supervised_worker(stack, one.pid, other.pid), signal.SIGKILL)
        with moving() as passed:
            assert [outcome(stack, each, 90) for each in accepted] == [(b"%d" % number, None) for number in range(20)]
            assert passed() < 2 * LEASE_SECONDS + 20 * 0.5 + 10
        assert most_at_once(journal, accepted) == 1
        assert sum(times_called(journal, accepted)) <= 22, "only what ran in a killed worker is asked again"


def _supervised_worker(stack: Stack, *doubles: int) -> int:
    """The process id of the one worker that is none of these, once it is there.

    For a moment what a process starts looks like the process itself.
    """

    def look() -> int:
        found = set(stack.pids("worker")) - set(doubles)
        return found.pop() if len(found) == 1 else 0

    return stack.wait(look)


def test_instances_get_as_many_calls_as_they_may_and_no_more(stack: Stack, bucket: str, journal: Path) -> None:
    with queue_of(stack, "two-by-four", bucket, journal, most=4, count=2), double(stack, "worker"):
        with stack.standing_still("worker"):  # until there are enough for every place, however slowly they come
            accepted = accept_many(stack, "two-by-four", 60, "delay:0.3")
        stack.wait(lambda: states(stack, "two-by-four") == {"completed": 60}, 60)
        assert times_called(journal, accepted) == [1] * 60
        assert 6 <= most_at_once(journal, accepted) <= 8


# The broker.


def test_while_the_broker_answers_nobody_all_goes_on_and_it_is_heard_again(
    stack: Stack, endpoint: str, bucket: str
) -> None:
    """A cut in the network: nothing is refused, nothing is reset, nothing arrives."""
    with stack.standing_still("valkey"), moving() as passed:
        accepted = [accept(stack, NAME, b"%d" % number) for number in range(10)]
        create_endpoint(stack, "cut-off", bucket=bucket)
        assert passed() < START_SECONDS
        assert [outcome(stack, each) for each in accepted] == [(b"%d" % number, None) for number in range(10)]
        in_service(stack, "cut-off")
        assert not stack.is_ready
    assert outcome(stack, accept(stack, "cut-off", b"after")) == (b"after", None)
    stack.wait(lambda: stack.is_ready, 60)
    delete_endpoint(stack, "cut-off")


# Many at once.


def test_many_endpoints_created_at_once_all_come_up(stack: Stack, endpoint: str) -> None:
    """As many as there is room for; their models and configurations a moment before, with nothing in between."""
    names = [f"at-once-{number}" for number in range(6)]
    with ThreadPoolExecutor(len(names)) as callers, hearing(stack, "worker", "scheduler") as told:
        list(callers.map(lambda name: create_endpoint(stack, name), names))
        for name in names:
            in_service(stack, name)
        assert "DoesNotExist" not in told()
        list(callers.map(lambda name: delete_endpoint(stack, name), names))


def test_ten_thousand_requests_hold_up_no_operation_and_no_health_check(stack: Stack, bucket: str) -> None:
    sagemaker = stack.client("sagemaker")
    with queue_of(stack, "swamped", bucket) as name:
        _queue_up(stack, accept(stack, name, b"x", "delay:1"), BACKLOG)
        with begins(stack, "passing", "LaunchRequested"):
            create_endpoint(stack, "passing")
        in_service(stack, "passing")
        with begins(stack, "passing", "LaunchRequested"):
            change = [{"VariantName": "main", "DesiredInstanceCount": 2}]
            sagemaker.update_endpoint_weights_and_capacities(EndpointName="passing", DesiredWeightsAndCapacities=change)
        in_service(stack, "passing")
        with begins(stack, "passing", "InstanceGone", 3 * PING_SECONDS):
            assert invoke(stack, "passing", b"x", "crash").status == 424
        with begins(stack, "passing", "InstanceTerminating"):
            sagemaker.delete_endpoint(EndpointName="passing")
        sagemaker.get_waiter("endpoint_deleted").wait(EndpointName="passing", WaiterConfig={"Delay": 1})
        assert states(stack, name)["queued"] > BACKLOG - 200
        with stack.database() as database:
            gone = "DELETE FROM invocations_asyncinvocation WHERE endpoint_name = %s AND state = 'queued' RETURNING id"
            payloads = f"WITH gone AS ({gone}) DELETE FROM invocations_asyncpayload WHERE invocation_id IN (TABLE gone)"
            database.execute(payloads, [name])


@contextmanager
def begins(stack: Stack, name: str, reason: str, seconds: float = START_SECONDS) -> Iterator[None]:
    """What is done here to the endpoint has a first event of this kind in time."""
    query = "SELECT count(*) FROM observability_event WHERE subject_name = %s AND reason = %s"
    with stack.database() as database:

        def count() -> int:
            return int(database.execute(query, [name, reason]).fetchall()[0][0])

        before = count()
        yield
        stack.wait(lambda: count() > before, seconds)


def _queue_up(stack: Stack, like: Accepted, count: int) -> None:
    """Queue so many more requests like this one, which has just been accepted."""
    fresh = "jsonb_build_object('id', gen_random_uuid(), 'state', 'queued', 'attempts', 0 * n, 'timeline', '[]'::jsonb)"
    free = '\'{"lease_token": null, "lease_expires_at": null, "instance_id": null}\'::jsonb'
    with stack.database() as database:
        database.execute(
            "INSERT INTO invocations_asyncinvocation SELECT copy.* FROM invocations_asyncinvocation row,"
            f" generate_series(1, %s) n, jsonb_populate_record(NULL::invocations_asyncinvocation, to_jsonb(row) || {fresh}"
            f" || {free}) copy WHERE row.inference_id = %s",
            [count, like["InferenceId"]],
        )
        database.execute(
            "INSERT INTO invocations_asyncpayload SELECT id, 'x' FROM invocations_asyncinvocation"
            " WHERE inference_id = %s ON CONFLICT DO NOTHING",
            [like["InferenceId"]],
        )
