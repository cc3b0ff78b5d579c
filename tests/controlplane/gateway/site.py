"""A gateway as a process, over a database of its own, before real containers and an API that says what it was sent."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from psycopg.types.json import Jsonb

from controlplane.core import clock
from controlplane.routing.table import AsyncInference, Route, Target, VariantRoute, encode
from tests import aws
from tests.controlplane.routing.peers import free_port
from tests.engines_plugin import ACCOUNT

REPOSITORY = Path(__file__).parents[3]
PATIENCE_SECONDS = 30.0
START_SECONDS = 120.0
"""A new process first imports for seconds of processor time, and there may be many of them."""

PAYLOAD_LIMIT_BYTES = 1_000_000
INVOCATION_TIMEOUT_SECONDS = 60.0
STREAM_TIMEOUT_SECONDS = 120.0
"""Long enough for a machine that stands still for a while."""

HASTY_SECONDS = 1.5
"""The time for an answer of a gateway whose instances are to take too long."""

LEAST = "LEAST_OUTSTANDING_REQUESTS"

T = TypeVar("T")


def wait_for(look: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """What `look` gives once it gives something."""
    deadline, pause = clock.monotonic() + seconds, threading.Event()
    while clock.monotonic() < deadline:
        if found := look():
            return found
        pause.wait(0.02)
    raise AssertionError(f"not within {seconds} s")


@dataclass
class Container:
    """The reference container as a process."""

    instance_id: str
    address: str
    journal_path: Path
    process: "subprocess.Popen[bytes]"

    @property
    def target(self) -> Target:
        return Target(self.instance_id, self.address, "ml.m5.large", False)

    def journal(self) -> list[dict[str, Any]]:
        """What happened to it, line by line."""
        return (
            [json.loads(line) for line in self.journal_path.read_text().splitlines()] if self.journal_path.exists() else []
        )

    def received(self) -> list[dict[str, Any]]:
        """The requests that reached it."""
        return [line for line in self.journal() if line["event"] == "received"]


NewContainer = Callable[[str], Container]
"""Starts one by its name."""


@contextmanager
def container(folder: Path, name: str) -> Iterator[Container]:
    """A running reference container that writes a journal."""
    port, journal = free_port(), folder / f"{name}-{uuid4().hex[:8]}.jsonl"
    env = {"SAGEMAKER_BIND_TO_PORT": str(port), "CHAOS_SINK": str(journal), "CHAOS_NAME": name, "PATH": os.defpath}
    server = REPOSITORY / "deploy" / "images" / "reference" / "server.py"
    with subprocess.Popen([sys.executable, "-S", "-E", server], env=env) as process:
        try:
            wait_for(lambda: answers(port, "/ping"), START_SECONDS)
            yield Container(str(uuid4()), f"127.0.0.1:{port}", journal, process)
        finally:
            process.kill()


def answers(port: int, path: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


class _Mirror(BaseHTTPRequestHandler):
    """Stands where the API stands: answers with what it was sent."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = {
            "method": self.command,
            "path": self.path,
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": body.decode("latin-1"),
        }
        answer = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-From-The-Api", "yes")
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden name
        """Say nothing."""


@contextmanager
def mirror() -> Iterator[int]:
    """The mirror on a port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Mirror)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Site:
    """The gateway and what is around it."""

    database_url: str
    port: int
    log_path: Path
    env: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, knows_routes: bool = True) -> None:
        """Start the gateway and wait until it serves, and until it knows what there is unless it cannot."""
        with open(self.log_path, "ab") as log:
            command = [sys.executable, "-m", "controlplane.gateway"]
            self.process = subprocess.Popen(command, cwd=REPOSITORY, env=self.env, stdout=log, stderr=log)
        wait_for(lambda: answers(self.port, "/healthz"), START_SECONDS)
        if knows_routes:
            self.wait_for_routes()

    def wait_for_routes(self) -> None:
        """Wait until the routing table is current, and the database can be asked about what is not in it."""
        wait_for(self._knows_routes, START_SECONDS)

    def _knows_routes(self) -> bool:
        ready = self.request("GET", "/readyz").json
        return ready["routing_table"] == "ok" and ready["database_and_workers"].startswith(("ok", "no live "))

    def stop(self) -> None:
        """Stop it as the supervisor does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_SECONDS)

    def log(self) -> str:
        """What it has logged."""
        return self.log_path.read_text()

    def database(self) -> "psycopg.Connection[Any]":
        """A connection to its database."""
        return psycopg.connect(self.database_url, autocommit=True)

    def client(self, **config: Any) -> Any:
        """An unmodified boto3 client of the runtime that does not try again."""
        retries = {"total_max_attempts": 1, "mode": "standard"}
        return aws.client("sagemaker-runtime", endpoint_url=self.url, config=Config(retries=retries, **config))

    def publish(
        self,
        name: str,
        *targets: Target,
        status: str = "InService",
        failure_path: str | None = None,
        delivery: str = "{}",
        output_path: str = "s3://bucket/out",
        variants: tuple[VariantRoute, ...] | None = None,
    ) -> UUID:
        """Let an endpoint serve from these instances; with a failure path, even an empty one, it is asynchronous."""
        endpoint_id = self._endpoint(name)
        asynchronous = None if failure_path is None else AsyncInference(output_path, failure_path, None, delivery)
        shown = variants or (VariantRoute("main", 1.0, LEAST, targets),)
        is_serving = status == "InService"
        route = Route(str(endpoint_id), ACCOUNT, name, status, is_serving, asynchronous, shown)
        self.write_document(endpoint_id, name, encode(route))
        return endpoint_id

    def write_document(self, endpoint_id: UUID, name: str, document: object, *, notify: bool = True) -> None:
        """Store a document of the routing table, None = a tombstone."""
        row = [endpoint_id, ACCOUNT, name, None if document is None else Jsonb(document)]
        with self.database() as connection, connection.transaction():
            connection.execute(
                "INSERT INTO routing_routingsnapshot (endpoint_id, account_id, endpoint_name, revision, document,"
                " changed_at)"
                " VALUES (%s, %s, %s, nextval('routing_revision'), %s, clock_timestamp())"
                " ON CONFLICT (endpoint_id) DO UPDATE SET revision = excluded.revision, document = excluded.document",
                row,
            )
            if notify:
                connection.execute("SELECT pg_notify('headrace_routing', %s)", [str(endpoint_id)])

    def bury(self, name: str) -> None:
        """Let an endpoint end, and wait until the gateway knows."""
        self.write_document(self._endpoint(name), name, None)
        wait_for(lambda: self.post(f"/endpoints/{name}/invocations").status == 400)

    def delete(self, name: str) -> None:
        """Delete an endpoint without a word to the gateway, as if it had missed it."""
        with self.database() as connection:
            connection.execute("DELETE FROM endpoints_endpoint WHERE name = %s", [name])
            connection.execute("UPDATE routing_routingsnapshot SET document = NULL WHERE endpoint_name = %s", [name])

    def _endpoint(self, name: str) -> UUID:
        with self.database() as connection:
            known = connection.execute("SELECT id FROM endpoints_endpoint WHERE name = %s", [name]).fetchone()
            if known is not None:
                return UUID(str(known[0]))
            endpoint_id = uuid4()
            connection.execute(
                "INSERT INTO endpoints_endpoint (id, account_id, name, config_name, is_async, shows_pools, phase,"
                " failure_reason, created_at, modified_at, generation, revision, revisions, why, look_again_at)"
                " VALUES (%s, %s, %s, '', false, false, 'InService', '', now(), now(), 1, 1, 1, '', now())",
                [endpoint_id, ACCOUNT, name],
            )
        return endpoint_id

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> "Answer":
        """One unsigned request on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            lower = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, lower, response.read())
        finally:
            connection.close()

    def signed(self, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, **key: str) -> dict[str, str]:
        """The headers of a signed POST."""
        credentials = Credentials(
            key.get("access_key_id", self.env["HEADRACE_ACCESS_KEY_ID"]),
            key.get("secret", self.env["HEADRACE_SECRET_ACCESS_KEY"]),
        )
        request = AWSRequest("POST", self.url + path, data=body, headers=dict(headers or {}))
        SigV4Auth(credentials, key.get("service", "sagemaker"), "us-east-1").add_auth(request)
        return dict(request.headers)

    def raw(self, path: str, body: bytes = b"", lines: str = "", length: int | None = None) -> bytes:
        """The bytes of a signed POST, with more header lines, unsigned; `length` is said where it is not the body's."""
        head = {
            **self.signed(path, body),
            "Host": f"127.0.0.1:{self.port}",
            "Content-Length": len(body) if length is None else length,
        }
        fields = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        return f"POST {path} HTTP/1.1\r\n{fields}{lines}\r\n".encode() + body

    def post(self, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, **key: str) -> "Answer":
        """One signed POST, raw."""
        return self.request("POST", path, body, self.signed(path, body, headers, **key))


@dataclass(frozen=True)
class Answer:
    """An answer as it arrived; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)
