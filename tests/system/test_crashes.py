"""Kill -9 of each process in turn, and a flushed broker: everything converges, nothing doubles, nothing is lost."""

import os
import signal

import pytest

from tests.system.stack import FIRST, SECOND, Stack, counts_of, create_endpoint, delete_endpoint, in_service, objects_of
from workers.invocations.plan import ABANDONED_TEXT

PROCESSES = ["api", "worker", "scheduler", "valkey", "postgres", "gateway"]


def _state_of(stack: Stack, inference_id: str) -> str:
    return str(_row_of(stack, inference_id)[0])


def _retries_of(stack: Stack, inference_id: str) -> list[str]:
    """Why the request was tried again, each time."""
    return [detail for _, step, _, detail in _row_of(stack, inference_id)[1] if step == "retried"]


def _row_of(stack: Stack, inference_id: str) -> tuple[str, list[tuple[str, str, int, str]]]:
    """Its state and its timeline."""
    query = "SELECT state, timeline FROM invocations_asyncinvocation WHERE inference_id = %s"
    with stack.database() as connection:
        [row] = connection.execute(query, [inference_id]).fetchall()
    return row[0], row[1]


@pytest.mark.parametrize("victim", PROCESSES)
def test_killed_while_an_endpoint_is_created_and_while_a_call_runs(stack: Stack, bucket: str, victim: str) -> None:
    name = f"crash-{victim}"
    environment = {"CHAOS_START": "slow:1"}
    create_endpoint(stack, name, types=(FIRST, SECOND), count=2, bucket=bucket, environment=environment)
    stack.wait(lambda: stack.kill(victim))
    described = stack.wait(lambda: stack.is_ready and in_service(stack, name))
    pools = counts_of(described)
    assert pools == {FIRST: 0, SECOND: 2}
    assert stack.live_instances() == [SECOND, SECOND]

    runtime = stack.client("sagemaker-runtime")
    body = os.urandom(1000)
    accepted = runtime.invoke_endpoint_async(EndpointName=name, Body=body, CustomAttributes="mode=delay:1")
    stack.wait(lambda: stack.kill(victim))
    output, failure = stack.wait(lambda: stack.is_ready and _outcome(stack, accepted), 60)
    assert (output, failure) == (body, None)
    assert stack.wait(lambda: _state_of(stack, accepted["InferenceId"]) == "completed")
    if victim != "worker":  # who lives goes on with what it runs, and leaves it to nobody
        assert ABANDONED_TEXT not in _retries_of(stack, accepted["InferenceId"])

    delete_endpoint(stack, name)
    assert stack.wait(lambda: not stack.live_instances())


def test_a_flushed_broker_delays_nothing_for_long(stack: Stack, bucket: str) -> None:
    create_endpoint(stack, "flushed", count=2, bucket=bucket)
    stack.broker().flushall()
    in_service(stack, "flushed")
    accepted = stack.client("sagemaker-runtime").invoke_endpoint_async(EndpointName="flushed", Body=b"x")
    stack.broker().flushall()
    assert stack.wait(lambda: _outcome(stack, accepted)) == (b"x", None)
    delete_endpoint(stack, "flushed")


def _outcome(stack: Stack, accepted: dict[str, str]) -> tuple[bytes | None, bytes | None] | None:
    found = objects_of(stack, accepted)
    return found if found != (None, None) else None


@pytest.mark.parametrize(
    ("process", "said"), [("worker", "dispatcher.py"), ("gateway", "task "), ("scheduler", "schedule.py")]
)
def test_a_process_that_is_asked_says_in_its_log_where_everything_is(stack: Stack, process: str, said: str) -> None:
    stack.wait(lambda: stack.is_ready)
    log = stack.data_dir / "logs" / f"{process}.log"
    before = log.stat().st_size
    [pid, *_] = stack.pids(process)
    os.kill(pid, signal.SIGUSR1)
    told = stack.wait(lambda: "that is everything" in (text := log.read_bytes()[before:].decode(errors="replace")) and text)
    assert "asked where everything is" in told
    assert "thread MainThread" in told
    assert said in told
    assert pid in stack.pids(process)
