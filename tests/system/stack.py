"""A running Headrace, its clients, and the means to hurt it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import redis
from botocore.config import Config

from controlplane.embedded.kept import read_secrets
from controlplane.embedded.processes import answers_ready
from tests import aws, evidence
from tests.contract.openapi import Document
from tests.contract.waiting import wait
from tests.controlplane.routing.peers import free_port
from tests.system.judging import watch
from workers.providers.local.processes import directories
from workers.providers.local.provider import LocalProvider

REPOSITORY = Path(__file__).parents[2]
IMAGE = "headrace/reference:latest"
FIRST, SECOND, PLENTY = "ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.large"
CAPACITY = {FIRST: 0, SECOND: 3, PLENTY: 8}

PORTS = ("gateway", "api", "postgres", "valkey", "store")

STOP_SECONDS = 120
"""Longer than calls under way, instances and engines take to end, one after the other."""

T = TypeVar("T")

LOOKS_A_SECOND = 5
"""How often the clients' waiters look; left to themselves they look twice a minute."""


class Stack:
    """One `manage.py up` over a data directory of its own; `changes` go into its environment.

    With a `judge`, every answer that its clients of the control plane get is held against the OpenAPI document.
    """

    image = IMAGE
    judge: Document | None = None

    def __init__(self, data_dir: Path, **changes: str) -> None:
        self.data_dir = data_dir
        self.port = str(_reserved_ports(data_dir)["gateway"])
        self.url = f"http://127.0.0.1:{self.port}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_"))}
        self._env = {
            **clean,
            "HEADRACE_DATA_DIR": str(data_dir),
            "HEADRACE_PORT": self.port,
            "HEADRACE_LOCAL_CAPACITY": json.dumps(CAPACITY),
            **changes,
        }
        self._provider = LocalProvider(data_dir, self._env)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until an endpoint could be created and served."""
        evidence.began(self)
        with open(self.data_dir / "up.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "up"], cwd=REPOSITORY, env=self._env, stdout=log, stderr=log
            )
        self.wait(lambda: answers_ready(int(self.port)), 150)

    def stop(self) -> None:
        """Stop it as Ctrl-C does."""
        evidence.ends(self)
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(STOP_SECONDS)

    @property
    def access_key_id(self) -> str:
        """The bootstrap key's id."""
        return read_secrets(self.data_dir)[0]["access_key_id"]

    @property
    def secret_access_key(self) -> str:
        """The bootstrap key's secret."""
        return read_secrets(self.data_dir)[0]["secret_access_key"]

    @property
    def credentials(self) -> dict[str, str]:
        """The environment of a client: the address and one key pair."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def client(self, service: str, **config: Any) -> Any:
        """An unmodified boto3 client."""
        made = aws.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(retries={"total_max_attempts": 10, "mode": "standard"}, **config),
        )
        if self.judge is not None:
            watch(made, self.judge)
        return made

    def database(self) -> "psycopg.Connection[Any]":
        """A connection to its PostgreSQL."""
        ports = json.loads((self.data_dir / "ports.json").read_text())
        password = read_secrets(self.data_dir)[0]["postgres_password"]
        url = f"postgresql://headrace:{password}@127.0.0.1:{ports['postgres']}/headrace"
        return psycopg.connect(url, autocommit=True, connect_timeout=10)

    def broker(self) -> "redis.Redis":
        """A connection to its Valkey."""
        ports = json.loads((self.data_dir / "ports.json").read_text())
        return redis.Redis(port=ports["valkey"], password=read_secrets(self.data_dir)[0]["valkey_password"])

    @property
    def is_ready(self) -> bool:
        """Whether an endpoint could be created and served now."""
        return answers_ready(int(self.port))

    def set_capacity(self, instance_type: str, slots: int) -> None:
        """Rehearse a shortage or its end, and forget what was remembered of it."""
        self._provider.set_capacity(instance_type, slots)
        with self.database() as connection:
            connection.execute("DELETE FROM fleet_capacitymark WHERE instance_type = %s", [instance_type])

    def pids(self, name: str) -> list[int]:
        """The named process: all processes of it that run."""
        pattern = {
            "api": "controlplane.config.wsgi",
            "gateway": "controlplane.gateway",
            "worker": "workers.app",
            "scheduler": "manage.py\0scheduler",
            "valkey": "valkey-server",
            "postgres": "bin/postgres",
        }[name]
        mark, found = f"HEADRACE_SUPERVISED={self.data_dir}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if pattern.encode() in (folder / "cmdline").read_bytes() and mark in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def kill(self, name: str) -> int:
        """Kill -9 the named process (all processes of it), whatever it is doing; returns how many there were."""
        return sum(_sent(pid, signal.SIGKILL) for pid in self.pids(name))

    @contextmanager
    def standing_still(self, name: str) -> Iterator[None]:
        """The named process answers nobody and refuses nobody, as if the network were cut."""
        pids = [pid for pid in self.pids(name) if _sent(pid, signal.SIGSTOP)]
        try:
            yield
        finally:
            for pid in pids:
                _sent(pid, signal.SIGCONT)

    def live_instances(self) -> list[str]:
        """Types of the containers that run."""
        return [each.spec["instance_type"] for each in directories(self.data_dir) if each.is_alive and each.spec]

    def wait(self, look: Callable[[], T], seconds: float = 60) -> T:
        """What `look` gives once it gives something; the clients' errors meanwhile are waited out."""
        found: T = wait(look, seconds, pause_seconds=0.1)
        return found


@contextmanager
def running(**changes: str) -> Iterator[Stack]:
    """A Headrace, up and ready, over a data directory that goes with it."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-system-"))
    data_dir.chmod(0o755)
    stack = Stack(data_dir, **changes)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(data_dir, ignore_errors=True)


def _reserved_ports(data_dir: Path) -> dict[str, int]:
    """A port for each server, which nobody else is given while it is not there yet, or dead; kept as by an earlier run."""
    ports = {name: free_port() for name in PORTS}
    (data_dir / "ports.json").write_text(json.dumps(ports))
    return ports


def _sent(pid: int, number: int) -> bool:
    """Whether the signal reached somebody."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def create_endpoint(stack: Stack, name: str, **options: Any) -> None:
    """Create an endpoint `name` over pools of `types`, with `environment` in its container."""
    sagemaker = stack.client("sagemaker")
    sagemaker.create_model(
        ModelName=name,
        PrimaryContainer={"Image": stack.image, "Environment": options.get("environment", {})},
        ExecutionRoleArn="arn:aws:iam::123456789012:role/any",
    )
    pools = [
        {"InstanceType": each, "Priority": place} for place, each in enumerate(options.get("types", (PLENTY,)), start=1)
    ]
    variant = {
        "VariantName": "main",
        "ModelName": name,
        "InitialInstanceCount": options.get("count", 1),
        "InstancePools": pools,
        **options.get("variant", {}),
    }
    extra = {}
    if bucket := options.get("bucket"):
        paths = {"S3OutputPath": f"s3://{bucket}/out", "S3FailurePath": f"s3://{bucket}/failed"}
        output = {**paths, **options.get("output", {})}
        extra = {"AsyncInferenceConfig": {"OutputConfig": output, **options.get("asynchronous", {})}}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant], **extra)
    tags = [{"Key": key, "Value": value} for key, value in options.get("tags", {}).items()]
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=tags)


def within(seconds: int) -> dict[str, float]:
    """The WaiterConfig of a wait of so long."""
    return {"Delay": 1 / LOOKS_A_SECOND, "MaxAttempts": LOOKS_A_SECOND * seconds}


def in_service(stack: Stack, name: str, seconds: int = 60) -> dict[str, Any]:
    """The endpoint's description once it is InService."""
    waiter = stack.client("sagemaker").get_waiter("endpoint_in_service")
    waiter.wait(EndpointName=name, WaiterConfig=within(seconds))
    described: dict[str, Any] = stack.client("sagemaker").describe_endpoint(EndpointName=name)
    return described


def counts_of(described: dict[str, Any]) -> dict[str, int]:
    """Serving instances by type, from an endpoint's description."""
    pools = described["ProductionVariants"][0]["InstancePools"]
    return {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in pools}


def delete_endpoint(stack: Stack, name: str) -> None:
    """Delete an endpoint with its configuration and model, and wait until it is gone."""
    sagemaker = stack.client("sagemaker")
    sagemaker.delete_endpoint(EndpointName=name)
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig=within(60))
    sagemaker.delete_endpoint_config(EndpointConfigName=name)
    sagemaker.delete_model(ModelName=name)


def objects_of(stack: Stack, accepted: dict[str, Any]) -> tuple[bytes | None, bytes | None]:
    """What stands at the output and at the failure location of an accepted request."""
    return _object(stack, accepted["OutputLocation"]), _object(stack, accepted.get("FailureLocation", ""))


def _object(stack: Stack, location: str) -> bytes | None:
    if not location:
        return None
    store = stack.client("s3")
    bucket, _, key = location.removeprefix("s3://").partition("/")
    try:
        body: bytes = store.get_object(Bucket=bucket, Key=key)["Body"].read()
    except store.exceptions.NoSuchKey:
        return None
    return body
