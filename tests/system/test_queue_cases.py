"""Public failures of other queues, replayed on a running Headrace: what is accepted is done once, whatever fails."""

import asyncio
import http.client
import io
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
import redis
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.system.stack import PLENTY, REPOSITORY, Stack, create_endpoint, delete_endpoint, in_service, objects_of
from workers.invocations.queue import LEASE_SECONDS
from workers.invocations.quick_put import SMALL_BYTES
from workers.invocations.store import PART_BYTES, Store

NAME = "queue-cases"
BURST = 200


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the containers write down of their calls."""
    folder = tmp_path_factory.mktemp("journal")
    for each in (folder, *folder.parents[:3]):
        each.chmod(0o777)
    return folder / "calls.jsonl"


@pytest.fixture(scope="module")
def endpoint(stack: Stack, bucket: str, journal: Path) -> Iterator[str]:
    """Takes one call at a time."""
    one_at_a_time = {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 1}}
    create_endpoint(stack, NAME, bucket=bucket, environment={"CHAOS_SINK": str(journal)}, asynchronous=one_at_a_time)
    in_service(stack, NAME)
    yield NAME
    delete_endpoint(stack, NAME)


def accept(stack: Stack, body: bytes, mode: str = "echo", name: str = NAME, **members: Any) -> dict[str, Any]:
    """One asynchronous request."""
    answer: dict[str, Any] = stack.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=name, Body=body, CustomAttributes=f"mode={mode}", **members
    )
    return answer


def accept_many(stack: Stack, count: int, mode: str, name: str) -> list[dict[str, Any]]:
    """Many asynchronous requests as fast as they are taken."""
    runtime = stack.client("sagemaker-runtime")

    def one(number: int) -> dict[str, Any]:
        answer: dict[str, Any] = runtime.invoke_endpoint_async(
            EndpointName=name, Body=b"%d" % number, CustomAttributes=f"mode={mode}"
        )
        return answer

    with ThreadPoolExecutor(8) as callers:
        return list(callers.map(one, range(count)))


def outcome(stack: Stack, accepted: dict[str, Any], seconds: float = 60) -> tuple[bytes | None, bytes | None]:
    """Output and failure, once there is one of them."""
    return stack.wait(lambda: None if (found := objects_of(stack, accepted)) == (None, None) else found, seconds) or (
        None,
        None,
    )


def states(stack: Stack, name: str) -> Counter[str]:
    """How many requests of an endpoint are in which state."""
    query = "SELECT state, count(*) FROM invocations_asyncinvocation WHERE endpoint_name = %s GROUP BY state"
    with stack.database() as database:
        return Counter(dict(database.execute(query, [name]).fetchall()))


def calls_of(journal: Path, accepted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The journal's lines of these requests."""
    ids = {each["InferenceId"] for each in accepted}
    lines = map(json.loads, journal.read_text().splitlines())
    return [line for line in lines if line["inference_id"] in ids]


def times_called(journal: Path, accepted: list[dict[str, Any]]) -> list[int]:
    """How often the containers were called for each request."""
    counts = Counter(line["inference_id"] for line in calls_of(journal, accepted) if line["event"] == "received")
    return [counts[each["InferenceId"]] for each in accepted]


def most_at_once(journal: Path, accepted: list[dict[str, Any]]) -> int:
    """How many of these calls were ever under way together."""
    under_way = most = 0
    for line in calls_of(journal, accepted):
        under_way += 1 if line["event"] == "received" else -1
        most = max(most, under_way)
    return most


# What is accepted is done, and done once.


def test_a_burst_is_accepted_and_done_whole_each_request_once(stack: Stack, bucket: str, journal: Path) -> None:
    many = {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 100}}
    create_endpoint(stack, "burst", bucket=bucket, environment={"CHAOS_SINK": str(journal)}, asynchronous=many)
    in_service(stack, "burst")
    accepted = accept_many(stack, BURST, "echo", "burst")
    stack.wait(lambda: states(stack, "burst") == {"completed": BURST}, 60)
    assert times_called(journal, accepted) == [1] * BURST
    assert [objects_of(stack, accepted[number]) for number in (0, BURST - 1)] == [(b"0", None), (b"%d" % (BURST - 1), None)]
    assert "DoesNotExist" not in (stack.data_dir / "logs" / "worker.log").read_text()
    delete_endpoint(stack, "burst")


def test_a_call_far_longer_than_its_lease_is_made_once(stack: Stack, endpoint: str, journal: Path) -> None:
    accepted = accept(stack, b"long", f"hang:{LEASE_SECONDS + 3}")
    assert outcome(stack, accepted) == (b"long", None)
    assert times_called(journal, [accepted]) == [1]


def test_a_killed_worker_neither_leaks_a_place_nor_gives_it_twice(stack: Stack, endpoint: str, journal: Path) -> None:
    accepted = [accept(stack, b"%d" % number, "delay:0.3") for number in range(10)]
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
    accepted = [accept(stack, b"%d" % number, "delay:0.2") for number in range(24)]
    sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName=f"{NAME}-next")
    assert states(stack, NAME)["queued"] > 0
    in_service(stack, NAME)
    after = accept(stack, b"after")
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
    failing, behind = accept(stack, b"x", f"http:500:{kind}"), accept(stack, b"next")
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
    accept_many(stack, BURST, "hang:600", "backlog")
    create_endpoint(stack, "passer-by", bucket=bucket)
    in_service(stack, "passer-by")
    assert outcome(stack, accept(stack, b"mine", name="passer-by")) == (b"mine", None)
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
        accepted += [accept(stack, b"%d-%d" % (number, place)) for place in range(5)]
    expected = [(b"%d-%d" % (number, place), None) for number in range(3) for place in range(5)]
    assert [outcome(stack, each) for each in accepted] == expected
    in_service(stack, "unrung")
    assert outcome(stack, accept(stack, b"heard", name="unrung")) == (b"heard", None)
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
        accepted = [accept(stack, body) for _ in range(5)]
        create_endpoint(stack, name, bucket=bucket)
        assert [outcome(stack, each) for each in accepted] == [(body, None)] * 5
        in_service(stack, name)
    finally:
        broker.config_set("maxmemory", "0")
        broker.config_set("maxmemory-policy", "noeviction")
        broker.delete("kept")
    assert outcome(stack, accept(stack, b"after", name=name)) == (b"after", None)
    delete_endpoint(stack, name)


@contextmanager
def second_scheduler(stack: Stack) -> Iterator[None]:
    """One more scheduler beside the one that runs, in the same environment."""
    mark = f"HEADRACE_SUPERVISED={stack.data_dir}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_it = b"manage.py\0scheduler" in (folder / "cmdline").read_bytes()
            pairs = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_it and mark in pairs:
            break
    else:
        raise AssertionError("no scheduler runs")
    env = dict(pair.split(b"=", 1) for pair in pairs if pair)
    with subprocess.Popen([sys.executable, "manage.py", "scheduler"], cwd=REPOSITORY, env=env) as process:
        try:
            stack.wait(lambda: has_beaten(stack, process.pid))
            yield
            assert process.poll() is None
        finally:
            process.kill()


def has_beaten(stack: Stack, pid: int) -> bool:
    """Whether the scheduler of this process id has said that it works."""
    query = "SELECT 1 FROM observability_heartbeat WHERE role = 'scheduler' AND process_id LIKE %s"
    with stack.database() as database:
        return bool(database.execute(query, [f"%:{pid}"]).fetchall())


def test_two_schedulers_start_and_end_what_one_would(stack: Stack) -> None:
    ever = (
        "SELECT count(*) FROM fleet_instance i JOIN endpoints_endpoint e ON e.id = i.endpoint_id"
        " WHERE e.name = 'twice-scheduled'"
    )
    sagemaker = stack.client("sagemaker")
    with second_scheduler(stack), stack.database() as database:
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


class OldStore(ThreadingHTTPServer):
    """A way to the store at `behind` on which what is new is refused; `refused` says what was."""

    daemon_threads = True

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.behind = behind
        self.refused: list[str] = []


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OldStore

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        new = [name for name in headers if name.startswith(NEWER)]
        new += [value for value in headers.values() if value.startswith("STREAMING-") or "aws-chunked" in value]
        self.server.refused += new
        if new:
            self._send(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
        else:
            self._pass_on(headers, body)

    def _pass_on(self, headers: dict[str, str], body: bytes) -> None:
        headers.pop("expect", None)  # answered already
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)) as connection:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            self._send(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        headers.pop("transfer-encoding", None)
        if self.command != "HEAD":
            headers["content-length"] = str(len(body))
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden name
        """Say nothing."""


@contextmanager
def old_store(stack: Stack) -> Iterator[OldStore]:
    """Such a way to the embedded store."""
    ports = json.loads((stack.data_dir / "ports.json").read_text())
    with OldStore(ports["store"]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("size", [0, 1000, SMALL_BYTES + 1, PART_BYTES + 1])
def test_a_store_that_knows_no_newer_checksums_keeps_outputs_of_every_size(
    stack: Stack, bucket: str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for name, value in stack.credentials.items():
        if name != "AWS_ENDPOINT_URL":
            monkeypatch.setenv(name, value)
    body, location, invocation_id = os.urandom(size), f"s3://{bucket}/old/{uuid4().hex}", uuid4()
    with old_store(stack) as server:
        url = f"http://127.0.0.1:{server.server_port}"

        async def work() -> bool:
            store = Store(url, "us-east-1")
            try:
                await store.put(location, io.BytesIO(body), "text/plain", invocation_id)
                assert b"".join(store.chunks(location, 1 << 20)) == body
                return await store.has(location, invocation_id)
            finally:
                store.close()

        assert asyncio.run(work())
        assert server.refused == []
        today = boto3.client("s3", endpoint_url=url, config=Config(retries={"total_max_attempts": 1}))
        with pytest.raises(ClientError, match="NotImplemented"):  # such a store minds what SDKs do unasked
            today.put_object(Bucket=bucket, Key="any", Body=b"x")
