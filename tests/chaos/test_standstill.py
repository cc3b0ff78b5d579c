"""Nothing stands still: backends, the whole database and the broker killed or stopped under load, and new requests answered
within seconds of the database's return, each time.

A backend that is killed takes all others with it, which say so before they go: a client finds words and the end of the
connection at once. Which one it is, and when, a seed draws.
"""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from controlplane.core.database import ANSWER_SECONDS
from tests.contract.waiting import moving
from tests.system.stack import Stack, create_endpoint, in_service, objects_of

ROUNDS = int(os.environ.get("STANDSTILL_ROUNDS", "8"))
"""`STANDSTILL_ROUNDS=150 make test ARGS=tests/chaos/test_standstill.py` takes half an hour."""

ANSWERED_SECONDS = ANSWER_SECONDS - 2
"""Sooner than where a statement had to be given up."""

NAME = "restless"


def backends(stack: Stack) -> list[int]:
    """The database's processes that serve clients."""
    found = []
    for child in [child for pid in stack.pids("postgres") for child in _children(pid)]:
        with suppress(OSError):
            if b": headrace " in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_a_backend(stack: Stack, dice: random.Random) -> None:
    if found := backends(stack):
        _send(signal.SIGKILL, dice.choice(found))


def kill_the_postmaster(stack: Stack, dice: random.Random) -> None:
    stack.kill("postgres")


def stop_everything_for_a_while(stack: Stack, dice: random.Random) -> None:
    pids = [*stack.pids("postgres"), *backends(stack)]
    _send(signal.SIGSTOP, *pids)
    threading.Event().wait(dice.uniform(1, 12))
    _send(signal.SIGCONT, *pids)


def stop_a_backend_for_a_while(stack: Stack, dice: random.Random) -> None:
    if found := backends(stack):
        pid = dice.choice(found)
        _send(signal.SIGSTOP, pid)
        threading.Event().wait(dice.uniform(1, 8))
        _send(signal.SIGCONT, pid)


def restart_it(stack: Stack, dice: random.Random) -> None:
    _send(dice.choice([signal.SIGINT, signal.SIGQUIT]), *stack.pids("postgres"))


def kill_the_broker_too(stack: Stack, dice: random.Random) -> None:
    stack.kill("valkey")
    kill_a_backend(stack, dice)


FAULTS: dict[Callable[[Stack, random.Random], None], int] = {
    kill_a_backend: 4,
    kill_the_postmaster: 2,
    stop_everything_for_a_while: 1,
    stop_a_backend_for_a_while: 1,
    restart_it: 2,
    kill_the_broker_too: 1,
}
"""With how often each is drawn."""


@contextmanager
def load(stack: Stack) -> Iterator[None]:
    """Some twenty requests a second, whether they are accepted or not."""
    over = threading.Event()

    def send(attributes: str, pause: float) -> None:
        runtime = stack.client("sagemaker-runtime")
        while not over.wait(pause):
            with suppress(ClientError, BotoCoreError):
                runtime.invoke_endpoint_async(EndpointName=NAME, Body=b"x" * 1000, CustomAttributes=attributes)

    senders = [
        threading.Thread(target=send, args=each, daemon=True) for each in (("mode=delay:0.2", 0.2), ("", 0.1), ("", 0.1))
    ]
    for sender in senders:
        sender.start()
    try:
        yield
    finally:
        over.set()
        for sender in senders:
            sender.join(60)


def _is_back(stack: Stack) -> bool:
    with suppress(psycopg.Error), stack.database() as connection:
        connection.execute("SET statement_timeout = '2s'")
        return connection.execute("SELECT 1").fetchone() is not None
    return False


def _is_answered(stack: Stack, number: int) -> bool:
    body = b"probe %d" % number
    runtime = stack.client("sagemaker-runtime")
    with suppress(ClientError, BotoCoreError):
        accepted = runtime.invoke_endpoint_async(EndpointName=NAME, Body=body)
        return bool(stack.wait(lambda: objects_of(stack, accepted)[0] == body, ANSWERED_SECONDS))
    return False


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_whatever_happens_to_the_database_new_requests_are_answered_soon_after(stack: Stack) -> None:
    dice = random.Random(20261130)
    stack.client("s3").create_bucket(Bucket="restless")
    create_endpoint(stack, NAME, count=2, bucket="restless")
    in_service(stack, NAME)
    with load(stack):
        for number in range(ROUNDS):
            threading.Event().wait(dice.uniform(0, 2))
            fault = dice.choices([*FAULTS], [*FAULTS.values()])[0]
            fault(stack, dice)
            stack.wait(lambda: _is_back(stack), 60)
            with moving() as passed:
                assert stack.wait(lambda number=number: _is_answered(stack, number), ANSWERED_SECONDS), fault.__name__
                assert passed() < ANSWERED_SECONDS, fault.__name__
