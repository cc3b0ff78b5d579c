"""Engines and only those processes that a benchmark measures, over a data directory of their own."""

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from cryptography.fernet import Fernet
from psycopg.types.json import Jsonb

from controlplane.core import clock
from controlplane.embedded import engines
from controlplane.embedded.child import MARK
from controlplane.embedded.processes import WORKER_THREADS
from controlplane.embedded.store import accepts
from controlplane.routing.table import AsyncInference, Route, Target, VariantRoute, encode
from tests.controlplane.routing.peers import free_port

REPOSITORY = Path(__file__).parents[2]
ACCOUNT = "123456789012"
REGION = "us-east-1"
BUCKET = "bench"

_ROUTE = """
INSERT INTO routing_routingsnapshot (endpoint_id, account_id, endpoint_name, revision, document, changed_at)
VALUES (%s, %s, %s, nextval('routing_revision'), %s, clock_timestamp())
"""
_ENDPOINT = """
INSERT INTO endpoints_endpoint (id, account_id, name, config_name, is_async, shows_pools, phase, failure_reason, created_at,
  modified_at, generation, revision, revisions, why, look_again_at)
VALUES (%s, %s, %s, '', true, false, 'InService', '', now(), now(), 1, 1, 1, '', now())
"""
_COLUMNS = (
    "id, account_id, endpoint_id, endpoint_name, variant_name, inference_id, content_type, accept, custom_attributes,"
    " input_location, state, accepted_at, expires_at, timeout_seconds, attempts, due_at, output_location,"
    " failure_location, delivery, is_storing, outcome_text, failure_kind, timeline, redrives"
)


@dataclass
class Site:
    """Running engines, and what was started beside them."""

    data_dir: Path
    env: dict[str, str]
    database_url: str
    access_key_id: str
    secret_access_key: str
    stack: ExitStack
    port: int = 0
    processes: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def database(self) -> "psycopg.Connection[Any]":
        """A connection to the database."""
        return psycopg.connect(self.database_url, autocommit=True)

    def start(self, name: str, argv: list[str], **env: str) -> "subprocess.Popen[bytes]":
        """Start a process, to be ended with the site."""
        started = {**self.env, **env}
        with open(self.data_dir / f"{name}.log", "ab") as log:
            process = subprocess.Popen([sys.executable, *argv], cwd=REPOSITORY, env=started, stdout=log, stderr=log)
        self.stack.callback(_end, process)
        self.processes[name] = process
        return process

    def stop(self, name: str) -> None:
        """End the process of that name that was started last."""
        _end(self.processes[name])

    def start_gateway(self) -> None:
        """Start one gateway and wait until it knows the endpoints that are there by then."""
        self.port = free_port()
        self.start("gateway", ["-m", "controlplane.gateway"], HEADRACE_PORT=str(self.port))
        wait_for(lambda: serves(self.port))

    def start_gateways(self, count: int) -> tuple[int, tuple[int, ...]]:
        """Start gateways that share a port, and wait until each has its table; the port and the processes' ids."""
        port = free_port()
        env = {"HEADRACE_PORT": str(port), "HEADRACE_GATEWAYS": str(count)}
        pids = tuple(
            self.start(f"gateway-{number}", ["-m", "controlplane.gateway"], **env).pid for number in range(1, count + 1)
        )
        wait_for(lambda: {str(pid) for pid in pids} <= self._fresh_gateways())
        return port, pids

    def _fresh_gateways(self) -> set[str]:
        """The process ids of the gateways that have reported a table."""
        query = "SELECT gateway_id FROM fleet_gatewayheartbeat WHERE table_age_seconds < 60"
        with self.database() as connection:
            return {row[0].rpartition(":")[2] for row in connection.execute(query).fetchall()}

    def start_worker(self, **env: str) -> "subprocess.Popen[bytes]":
        """Start one worker process as `manage.py up` does."""
        return self.start("worker", celery_worker("workers.app", WORKER_THREADS), **env)

    def start_noop_server(self, name: str) -> str:
        """Start a server that does nothing; returns host:port."""
        port = free_port()
        self.start(name, ["-m", "tests.perf.noop_server", str(port)])
        wait_for(lambda: accepts(port))
        return f"127.0.0.1:{port}"

    def endpoint(self, name: str, *addresses: str, max_concurrent: int | None = None, is_async: bool = True) -> UUID:
        """An endpoint that serves from these addresses."""
        endpoint_id = uuid4()
        targets = tuple(Target(str(uuid4()), address, "ml.m5.large", False) for address in addresses)
        inference = AsyncInference(f"s3://{BUCKET}/out", f"s3://{BUCKET}/failed", max_concurrent)
        variants = (VariantRoute("main", 1.0, "RANDOM", targets),)
        asynchronous = inference if is_async else None
        route = Route(str(endpoint_id), ACCOUNT, name, "InService", True, asynchronous, variants)
        with self.database() as connection:
            connection.execute(_ENDPOINT, [endpoint_id, ACCOUNT, name])
            connection.execute(_ROUTE, [endpoint_id, ACCOUNT, name, Jsonb(encode(route))])
        return endpoint_id

    def queue_up(self, endpoint_id: UUID, name: str, count: int, body: bytes = b"{}") -> None:
        """Put `count` accepted requests into the queue, by COPY."""
        now = clock.now()
        later = now + timedelta(hours=6)
        ids = [uuid4() for _ in range(count)]
        with self.database() as connection, connection.transaction(), connection.cursor() as cursor:
            with cursor.copy(f"COPY invocations_asyncinvocation ({_COLUMNS}) FROM STDIN") as copy:
                for key in ids:
                    output, failure = f"s3://{BUCKET}/out/{key}.out", f"s3://{BUCKET}/failed/{key}-error.out"
                    asked = (key, ACCOUNT, endpoint_id, name, "", str(key), "application/json", "", "", "")
                    due = ("queued", now, later, 900, 0, now)
                    copy.write_row([*asked, *due, output, failure, "{}", False, "", "", "[]", 0])
            with cursor.copy("COPY invocations_asyncpayload (invocation_id, body) FROM STDIN") as copy:
                for key in ids:
                    copy.write_row([key, body])

    def count(self, state: str) -> int:
        """How many requests are in this state."""
        with self.database() as connection:
            query = "SELECT count(*) FROM invocations_asyncinvocation WHERE state = %s"
            row = connection.execute(query, [state]).fetchone()
        return int(row[0]) if row else 0

    def forget_requests(self) -> None:
        """Empty the queue."""
        with self.database() as connection:
            connection.execute("TRUNCATE invocations_asyncinvocation, invocations_asyncpayload")


def celery_worker(app: str, threads: int) -> list[str]:
    """The command line of a worker, the same for Headrace's and for plain Celery."""
    options = ["--pool", "threads", "--concurrency", str(threads), "--without-gossip", "--without-mingle"]
    return ["-m", "celery", "-A", app, "worker", *options, "--without-heartbeat", "--loglevel", "WARNING"]


def serves(port: int) -> bool:
    """Whether the gateway of this port is there and knows its routing table."""
    return accepts(port) and _knows_its_table(port)


def _knows_its_table(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return bool(json.load(connection.getresponse())["routing_table"] == "ok")
    finally:
        connection.close()


def wait_for(look: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return once `look` says so."""
    deadline, pause = clock.monotonic() + seconds, threading.Event()
    while not look():
        if clock.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s")
        pause.wait(0.02)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def running(data_dir: Path) -> Iterator[Site]:
    """Start the engines, migrate, and end everything that was started."""
    with ExitStack() as stack, engines.running(data_dir, {}) as started:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_"))},
            MARK: str(data_dir),
            "HEADRACE_DATA_DIR": str(data_dir),
            "HEADRACE_DATABASE_URL": started.database_url,
            "HEADRACE_REDIS_URL": started.redis_url,
            "HEADRACE_S3_ENDPOINT_URL": started.s3_endpoint_url,
            "HEADRACE_API_URL": "http://127.0.0.1:1",
            "HEADRACE_SECRET_KEY": Fernet.generate_key().decode(),
            "HEADRACE_ACCESS_KEY_ID": started.access_key_id,
            "HEADRACE_SECRET_ACCESS_KEY": started.secret_access_key,
            "HEADRACE_ACCOUNT_ID": ACCOUNT,
            "HEADRACE_PROVIDER": "simulated",
            "AWS_ACCESS_KEY_ID": started.access_key_id,
            "AWS_SECRET_ACCESS_KEY": started.secret_access_key,
            "AWS_DEFAULT_REGION": REGION,
        }
        for command in ("migrate", "bootstrap"):
            subprocess.run([sys.executable, "manage.py", command, "-v", "0"], cwd=REPOSITORY, env=env, check=True)
        site = Site(data_dir, env, started.database_url, started.access_key_id, started.secret_access_key, stack)
        yield site
        stack.close()  # what uses the engines ends before them
