"""The Compose file's services run by their own commands and environment: the main journey, probes, and the end."""

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
import pytest
from botocore.config import Config

from controlplane.core.ids import new_uuid
from controlplane.embedded.child import Child
from deploy.new_secrets import new_secrets
from tests import aws
from tests.contract.waiting import wait
from tests.deploy.manifests import PROCESSES, seconds
from tests.deploy.plain import Plain

REPLICAS = {"gateway": 2, "worker": 2, "api": 1, "scheduler": 1}
FIRST, SECOND = "ml.g5.2xlarge", "ml.g4dn.xlarge"
STREAM_SECONDS = 4
ENDED_WELL = (0, -signal.SIGTERM)
"""uvicorn ends by the signal that it was told by, once everything is done."""

T = TypeVar("T")


def until(look: Callable[[], T]) -> T:
    """What `look` gives once it gives something."""
    found: T = wait(look, 60, pause_seconds=0.2)
    return found


@pytest.fixture(scope="module")
def secrets() -> Iterator[dict[str, str]]:
    """A new .env, with a database of its own on the tests' engines in the place of the file's."""
    name = f"compose_{new_uuid().hex[:12]}"
    base, _, _ = os.environ["HEADRACE_DATABASE_URL"].rpartition("/")
    broker, _, _ = os.environ["HEADRACE_REDIS_URL"].rpartition("/")
    with psycopg.connect(os.environ["HEADRACE_DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield {**new_secrets(), "HEADRACE_DATABASE_URL": f"{base}/{name}", "HEADRACE_REDIS_URL": f"{broker}/7"}
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def project(secrets: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plain]:
    """Everything up, in the file's order."""
    running = Plain(tmp_path_factory.mktemp("compose"), secrets)
    try:
        running.start("store")
        running.start("model")
        running.run("migrate")
        running.run("bootstrap")
        for name in ("api", "worker", "scheduler", "gateway"):
            for number in range(REPLICAS[name]):
                running.start(name, number)
        for number in range(REPLICAS["gateway"]):
            until(lambda number=number: answer(running, "/readyz", number)[0] == 200)  # type: ignore[misc]
        yield running
    finally:
        running.stop()


def answer(project: Plain, path: str, gateway: int = 0, **headers: str) -> tuple[int, str]:
    """Status and body at a gateway."""
    request = urllib.request.Request(f"http://127.0.0.1:{project.gateway_ports[gateway]}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def gauges(project: Plain, secrets: dict[str, str], gateway: int = 0) -> str:
    """What a gateway's page of metrics says to who has the token."""
    status, text = answer(project, "/metrics", gateway, Authorization=f"Bearer {secrets['HEADRACE_METRICS_TOKEN']}")
    assert status == 200
    return text


def client(project: Plain, secrets: dict[str, str], service: str, gateway: int = 0) -> Any:
    """An unmodified client of one of the gateways."""
    return aws.client(
        service,
        endpoint_url=f"http://127.0.0.1:{project.gateway_ports[gateway]}",
        region_name="us-east-1",
        aws_access_key_id=secrets["HEADRACE_ACCESS_KEY_ID"],
        aws_secret_access_key=secrets["HEADRACE_SECRET_ACCESS_KEY"],
        config=Config(retries={"total_max_attempts": 5, "mode": "standard"}),
    )


def ended_within_its_grace(project: Plain, service: str, child: Child) -> int | None:
    """The exit code of a replica that was told to stop."""
    process = child.process
    assert process is not None
    wait(lambda: process.poll() is not None, seconds(project.services[service]["stop_grace_period"]))
    return process.returncode


def create(project: Plain, secrets: dict[str, str], name: str, **extra: Any) -> None:
    """An endpoint over two pools, in service."""
    sagemaker = client(project, secrets, "sagemaker")
    sagemaker.create_model(ModelName=name, PrimaryContainer={"Image": "headrace/reference:latest"})
    pools = [{"InstanceType": each, "Priority": place} for place, each in enumerate((FIRST, SECOND), start=1)]
    variant = {"VariantName": "main", "ModelName": name, "InitialInstanceCount": 1, "InstancePools": pools}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant], **extra)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})


def test_the_main_journey_through_both_gateways(project: Plain, secrets: dict[str, str]) -> None:
    store = client(project, secrets, "s3")
    store.create_bucket(Bucket="answers")
    output = {"S3OutputPath": "s3://answers/out", "S3FailurePath": "s3://answers/failed"}
    create(project, secrets, "later", AsyncInferenceConfig={"OutputConfig": output})
    runtime = client(project, secrets, "sagemaker-runtime", gateway=1)
    accepted = runtime.invoke_endpoint_async(EndpointName="later", Body=b"hello", ContentType="text/plain")
    key = accepted["OutputLocation"].removeprefix("s3://answers/")
    store.get_waiter("object_exists").wait(Bucket="answers", Key=key, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    assert store.get_object(Bucket="answers", Key=key)["Body"].read() == b"hello"


@pytest.mark.parametrize("name", PROCESSES)
def test_the_health_check_is_content_with_what_runs(project: Plain, name: str) -> None:
    for number in range(REPLICAS[name]):
        assert until(lambda number=number: project.probe(name, number))  # type: ignore[misc]


def test_the_gauges_are_read_with_the_token(project: Plain, secrets: dict[str, str]) -> None:
    assert answer(project, "/metrics")[0] == 401
    wanted = [f'headrace_live_processes{{role="{role}"}} {REPLICAS[role]}.0' for role in ("gateway", "worker", "scheduler")]
    # Who has not been heard of for a while, be it that the machine stood still, counts again with its next word.
    assert until(lambda: all(line in gauges(project, secrets) for line in wanted))


def test_a_gateway_told_to_stop_lets_its_stream_end_and_the_other_takes_over(
    project: Plain, secrets: dict[str, str]
) -> None:
    create(project, secrets, "now")
    runtime = client(project, secrets, "sagemaker-runtime", gateway=0)
    mode = f"mode=pace:{STREAM_SECONDS * 2}:0.5"
    stream = runtime.invoke_endpoint_with_response_stream(EndpointName="now", Body=b"x", CustomAttributes=mode)
    events = iter(stream["Body"])
    pieces = [next(events)]
    gateway = project.children["gateway-0"]
    assert gateway.process is not None
    gateway.process.terminate()
    other = client(project, secrets, "sagemaker-runtime", gateway=1)
    assert other.invoke_endpoint(EndpointName="now", Body=b"still here")["Body"].read() == b"still here"
    pieces += events
    text = b"".join(piece["PayloadPart"]["Bytes"] for piece in pieces)
    assert text.count(b"chunk") == STREAM_SECONDS * 2
    assert ended_within_its_grace(project, "gateway", gateway) in ENDED_WELL
    text = gauges(project, secrets, 1)
    assert 'headrace_live_processes{role="gateway"} 1.0' in text, "it said goodbye"


def test_everything_else_ends_well_within_its_grace(project: Plain) -> None:
    for name, child in reversed(project.children.items()):
        service = name.rpartition("-")[0]
        if service not in PROCESSES or not child.is_running:
            continue
        assert child.process is not None
        child.process.terminate()
        assert ended_within_its_grace(project, service, child) in ENDED_WELL, name
