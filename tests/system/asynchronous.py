"""Asynchronous calls of a running Headrace, and what became of them: in the store, in the rows and in the journal.

The journal is what containers write down of their calls (the fixture `journal`; see the reference container).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.system.raw import ask
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service, objects_of

Accepted = dict[str, Any]
"""The answer to an InvokeEndpointAsync."""


@contextmanager
def queue_of(
    stack: Stack, name: str, bucket: str, journal: Path | None = None, most: int = 1, **options: Any
) -> Iterator[str]:
    """An asynchronous endpoint in service, each of its instances taking `most` calls at a time; then it is deleted."""
    environment = {**options.pop("environment", {}), **({"CHAOS_SINK": str(journal)} if journal else {})}
    limit = {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": most}}
    create_endpoint(stack, name, bucket=bucket, environment=environment, asynchronous=limit, **options)
    in_service(stack, name)
    yield name
    delete_endpoint(stack, name)


def accept(stack: Stack, name: str, body: bytes = b"", mode: str = "", **members: Any) -> Accepted:
    """One request; `mode` is what the container is to do with it, an empty body stands for none."""
    attributes = {"CustomAttributes": f"mode={mode}"} if mode else {}
    payload = {"Body": body} if body else {}
    runtime = stack.client("sagemaker-runtime")
    answer: Accepted = runtime.invoke_endpoint_async(EndpointName=name, **payload, **attributes, **members)
    return answer


def accept_many(stack: Stack, name: str, count: int, mode: str = "echo") -> list[Accepted]:
    """Many requests as fast as they are taken, with their numbers as bodies; in the order of the numbers."""
    runtime, attributes = stack.client("sagemaker-runtime"), f"mode={mode}"

    def one(number: int) -> Accepted:
        answer: Accepted = runtime.invoke_endpoint_async(
            EndpointName=name, Body=b"%d" % number, CustomAttributes=attributes
        )
        return answer

    with ThreadPoolExecutor(8) as callers:
        return list(callers.map(one, range(count)))


def outcome(stack: Stack, accepted: Accepted, seconds: float = 60) -> tuple[bytes | None, bytes | None]:
    """Output and failure, once there is one of them."""

    def look() -> tuple[bytes | None, bytes | None] | None:
        found = objects_of(stack, accepted)
        return found if found != (None, None) else None

    return stack.wait(look, seconds) or (None, None)


def states(stack: Stack, name: str) -> Counter[str]:
    """How many requests of an endpoint are in which state."""
    query = "SELECT state, count(*) FROM invocations_asyncinvocation WHERE endpoint_name = %s GROUP BY state"
    with stack.database() as database:
        return Counter(dict(database.execute(query, [name]).fetchall()))


def found(stack: Stack, accepted: Accepted) -> dict[str, Any]:
    """The request as the resource paths tell it."""
    [row] = ask(stack, "GET", f"/api/v1/async-requests?InferenceId={accepted['InferenceId']}").document["AsyncRequests"]
    return dict(row)


def calls_of(journal: Path, accepted: list[Accepted]) -> list[dict[str, Any]]:
    """The journal's lines of these requests."""
    ids = {each["InferenceId"] for each in accepted}
    lines = map(json.loads, journal.read_text().splitlines()) if journal.exists() else iter([])
    return [line for line in lines if line["inference_id"] in ids]


def times_called(journal: Path, accepted: list[Accepted]) -> list[int]:
    """How often the containers were called for each request."""
    counts = Counter(line["inference_id"] for line in calls_of(journal, accepted) if line["event"] == "received")
    return [counts[each["InferenceId"]] for each in accepted]


def most_at_once(journal: Path, accepted: list[Accepted]) -> int:
    """How many of these calls were ever under way together."""
    under_way = most = 0
    for line in calls_of(journal, accepted):
        under_way += 1 if line["event"] == "received" else -1
        most = max(most, under_way)
    return most


@contextmanager
def hearing(stack: Stack, *processes: str) -> Iterator[Callable[[], str]]:
    """What these processes have said in their logs since then; what came before is other tests' doing."""
    logs = [stack.data_dir / "logs" / f"{process}.log" for process in processes]
    sizes = {log: log.stat().st_size for log in logs}
    yield lambda: "".join(log.read_bytes()[size:].decode(errors="replace") for log, size in sizes.items())


def ends_of(journal: Path, accepted: Accepted) -> list[str]:
    """How the containers saw the calls of a request go."""
    return [line["event"] for line in calls_of(journal, [accepted])]
