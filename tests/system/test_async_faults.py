"""Asynchronous calls through the worst: everything killed a moment after a 202, endpoints deleted and made again."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.asynchronous import accept, accept_many, calls_of, ends_of, outcome, queue_of, states
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service, running

pytestmark = pytest.mark.timeout(600)
"""Headrace is started twice."""

BUCKET = "worst"
NAME = "worst"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A Headrace of its own, since nothing of it stays alive."""
    with running() as started:
        started.client("s3").create_bucket(Bucket=BUCKET)
        yield started


def processes_of(stack: Stack) -> list[int]:
    """Every process that the supervisor has started, and what these have started."""
    mark = f"HEADRACE_SUPERVISED={stack.data_dir}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def kill_everything(stack: Stack) -> int:
    """Kill -9 the supervisor, that it starts nothing again, and then all the others; returns how many there were.

    What a killed one has started may be gone before its turn comes.
    """
    assert stack._process is not None
    stack._process.kill()
    stack._process.wait()
    left = processes_of(stack)
    for process_id in left:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    return len(left)


def test_what_was_accepted_outlives_the_death_of_everything_a_moment_later(stack: Stack, journal: Path) -> None:
    """Database, broker, store, gateway, API, workers and scheduler: a 202 has promised an outcome, and there is one."""
    with queue_of(stack, NAME, BUCKET, journal, most=4):
        accepted = accept_many(stack, NAME, 40, "delay:0.2")
        assert kill_everything(stack) >= 6
        stack.start()
        outcomes = [outcome(stack, each, 90) for each in accepted]
        assert [output for output, _ in outcomes] == [b"%d" % number for number in range(40)]
        assert [failure for _, failure in outcomes] == [None] * 40
        assert states(stack, NAME) == {"completed": 40}


def test_an_endpoint_made_again_under_its_name_runs_nothing_of_the_earlier_one(stack: Stack, journal: Path) -> None:
    """One call runs and others wait when it is deleted: each ends once, and the later instance sees none of them."""
    old, new = journal.with_name("old.jsonl"), journal.with_name("new.jsonl")
    options = {"bucket": BUCKET, "asynchronous": {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 1}}}
    create_endpoint(stack, "again", environment={"CHAOS_SINK": str(old)}, **options)
    in_service(stack, "again")
    running = accept(stack, "again", b"runs", "delay:30")
    stack.wait(lambda: calls_of(old, [running]))
    waiting = [accept(stack, "again", b"waits") for _ in range(5)]
    delete_endpoint(stack, "again")
    create_endpoint(stack, "again", environment={"CHAOS_SINK": str(new)}, **options)
    in_service(stack, "again")
    mine = accept(stack, "again", b"mine")
    assert outcome(stack, mine) == (b"mine", None)
    output, failure = outcome(stack, running)
    assert (output is None) != (failure is None)
    for each in waiting:
        output, failure = outcome(stack, each)
        assert output is None
        assert b"endpoint was deleted" in (failure or b"")
    assert ends_of(new, running) == []
    assert calls_of(new, waiting) == calls_of(old, waiting) == []
    assert len(calls_of(new, [mine])) >= 1
    delete_endpoint(stack, "again")
