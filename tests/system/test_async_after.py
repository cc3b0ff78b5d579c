"""After the acceptance, on a running Headrace: a failure put right and redriven, and a call that hangs and is cancelled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.asynchronous import Accepted, accept, calls_of, ends_of, found, queue_of
from tests.system.raw import ask
from tests.system.stack import Stack, objects_of

NAME = "async-after"


@pytest.fixture(scope="module")
def endpoint(stack: Stack, bucket: str, journal: Path) -> Iterator[str]:
    """Takes one call at a time."""
    with queue_of(stack, NAME, bucket, journal) as name:
        yield name


def words(stack: Stack, accepted: Accepted) -> list[str]:
    """The words of its timeline."""
    told = ask(stack, "GET", f"/api/v1/async-requests/{found(stack, accepted)['RequestId']}").document
    return [step["Step"] for step in told["Timeline"]]


def test_a_request_whose_input_was_missing_is_put_right_and_redriven(stack: Stack, endpoint: str, bucket: str) -> None:
    accepted = accept(stack, NAME, InputLocation=f"s3://{bucket}/in/later.txt")
    stack.wait(lambda: objects_of(stack, accepted)[1])
    row = stack.wait(lambda: (row := found(stack, accepted))["Status"] == "failed" and row)
    assert row["FailureKind"] == "input_missing"
    [count] = ask(stack, "GET", f"/api/v1/dead-letter-counts?EndpointName={NAME}").document["DeadLetterCounts"]
    assert (count["FailureKind"], count["Count"]) == ("input_missing", 1)

    stack.client("s3").put_object(Bucket=bucket, Key="in/later.txt", Body=b"here it is")
    path, wish = f"/api/v1/endpoints/{NAME}/redrives", {"FailureKind": ["input_missing"]}
    assert ask(stack, "POST", path, {**wish, "DryRun": True}).document["Redriven"] == 1
    assert ask(stack, "POST", path, wish).document["Redriven"] == 1
    seen: list[tuple[bytes | None, bytes | None]] = []

    def answered() -> bool:
        seen.append(objects_of(stack, accepted))
        return seen[-1][0] is not None

    stack.wait(answered)
    assert seen[-1] == (b"here it is", None)
    assert not any(output and failure for output, failure in seen), "never both"
    stack.wait(lambda: found(stack, accepted)["Status"] == "completed")
    told = words(stack, accepted)
    assert told[told.index("failed") :][:3] == ["failed", "redriven", "retried"]
    assert told[-1] == "stored"


def test_a_call_that_hangs_is_cancelled_and_its_place_given_to_the_next(stack: Stack, endpoint: str, journal: Path) -> None:
    hanging = accept(stack, NAME, b"x", "hang:30")
    running = stack.wait(lambda: (row := found(stack, hanging))["Status"] == "running" and row)
    waiting = accept(stack, NAME, b"next")
    cancelled = ask(stack, "POST", f"/api/v1/async-requests/{running['RequestId']}/cancel")
    assert cancelled.status == 200
    assert stack.wait(lambda: objects_of(stack, waiting)[0]) == b"next"
    output, failure = stack.wait(lambda: (both := objects_of(stack, hanging))[1] and both)
    assert output is None
    assert b"The request was cancelled by" in failure
    assert stack.wait(lambda: (row := found(stack, hanging))["Status"] == "cancelled" and row)["Attempts"]
    # The container looks at its connection when it has done its work; then nobody was there any more.
    stack.wait(lambda: ends_of(journal, hanging) == ["received", "client-abort"], 90)
    ended = [(line["inference_id"], line["event"]) for line in calls_of(journal, [hanging, waiting])]
    place_taken, hang_over = (waiting["InferenceId"], "received"), (hanging["InferenceId"], "client-abort")
    assert ended.index(place_taken) < ended.index(hang_over), "the next one had not to wait for it"
    again = ask(stack, "POST", f"/api/v1/async-requests/{running['RequestId']}/redrive")
    assert (again.status, again.code) == (400, "ValidationException")
