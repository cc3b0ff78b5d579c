"""What a failed test's report says of the Headraces that ran: the end of each process's log, and what was queued.

    a test fails ----> each Headrace that runs, or was stopped since the test began ----> sections of the report

A Headrace's folder goes with it, so that whatever is to be said of one is kept as it is stopped.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.system.stack import Stack

LINES = 60
"""Of each log, its last."""

WIDTH = 300
"""Of each line, so many characters."""

_SECRET = re.compile(r"(SECRET_ACCESS_KEY=|password )[^\s)]+")

_QUEUE = {
    "requests": """SELECT endpoint_name, state, count(*), min(due_at), min(lease_expires_at), max(attempts)
        FROM invocations_asyncinvocation GROUP BY 1, 2 ORDER BY 1, 2""",
    "under way": """SELECT inference_id, state, due_at, lease_expires_at, timeline -> -1 FROM invocations_asyncinvocation
        WHERE state IN ('queued', 'running') ORDER BY due_at LIMIT 20""",
    "endpoints": "SELECT name, phase, why, look_again_at, claim_expires_at FROM endpoints_endpoint ORDER BY name LIMIT 20",
    "heartbeats": "SELECT role, process_id, clock_timestamp() - seen_at FROM observability_heartbeat ORDER BY seen_at DESC",
    "statements": """SELECT pid, state, wait_event, clock_timestamp() - query_start, left(query, 100) FROM pg_stat_activity
        WHERE datname = current_database() ORDER BY query_start DESC LIMIT 20""",
}

Section = tuple[str, str]

_running: "list[Stack]" = []
_stopped: list[Section] = []


def began(stack: "Stack") -> None:
    """This Headrace is being started: what fails from here on may be its doing."""
    if stack not in _running:
        _running.append(stack)


def ends(stack: "Stack") -> None:
    """This Headrace is about to be stopped: keep what there is to say of it until the test is over."""
    if stack in _running:
        _running.remove(stack)
        _stopped.extend(sections(stack))


def sections(stack: "Stack") -> Iterator[Section]:
    """What there is to say of a Headrace: its queue, and the end of each log."""
    yield f"Headrace at {stack.url}: the queue", _queue(stack)
    for log in sorted([*stack.data_dir.glob("*.log"), *stack.data_dir.glob("logs/*.log")]):
        yield f"Headrace at {stack.url}: the end of {log.name}", tail(log)


def tail(log: Path) -> str:
    """The last lines of a log, without the secrets that an installation tells whoever starts it."""
    with open(log, encoding="utf-8", errors="replace") as lines:
        return "\n".join(_SECRET.sub(r"\1***", line.rstrip()[:WIDTH]) for line in deque(lines, LINES))


def _queue(stack: "Stack") -> str:
    try:
        with stack.database() as connection:
            connection.execute("SET statement_timeout = '5s'")
            return "\n".join(
                f"{title}: {json.dumps(row, default=str)[:WIDTH]}"
                for title, query in _QUEUE.items()
                for row in connection.execute(query).fetchall()
            )
    except (psycopg.Error, OSError, KeyError) as error:
        return f"cannot be asked: {error}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add to the report of what failed; what was kept for a test goes with it."""
    report = yield
    if report.failed:
        report.sections += [*_stopped, *(each for stack in _running for each in sections(stack))]
    if call.when == "teardown":
        _stopped.clear()
    return report
