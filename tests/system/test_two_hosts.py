"""Two hosts of one installation, each a gateway and an API: what is created at one is there at the other, at once."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config

from tests import aws
from tests.controlplane.routing.peers import free_port
from tests.system.doubles import double
from tests.system.stack import IMAGE, PLENTY, Stack

TIMES = 25
ENDPOINTS = 3
TAGS = [{"Key": "team", "Value": "ml"}, {"Key": "owner", "Value": "somebody"}]


@pytest.fixture(scope="module")
def hosts(stack: Stack) -> Iterator[tuple[str, str]]:
    """The addresses of the two."""
    ports = {"api": free_port(), "gateway": free_port()}
    with double(stack, "api", ports), double(stack, "gateway", ports):
        yield stack.url, f"http://127.0.0.1:{ports['gateway']}"


def client(stack: Stack, url: str, service: str = "sagemaker") -> Any:
    """A client of one of them, with connections of its own, that does not try again."""
    return aws.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=stack.access_key_id,
        aws_secret_access_key=stack.secret_access_key,
        config=Config(retries={"total_max_attempts": 1}),
    )


def clients(stack: Stack, hosts: tuple[str, str], place: int) -> tuple[Any, Any]:
    """Who writes and who reads, at different hosts, the other way round each time."""
    first, second = (client(stack, url) for url in hosts)
    return (second, first) if place % 2 else (first, second)


def make(writer: Any, name: str) -> tuple[str, str]:
    """A model and a configuration of it, one right after the other; returns their ARNs."""
    model = writer.create_model(ModelName=name, PrimaryContainer={"Image": IMAGE}, Tags=TAGS)
    variant = {"VariantName": "main", "ModelName": name, "InitialInstanceCount": 1, "InstanceType": PLENTY}
    config = writer.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant], Tags=TAGS)
    return model["ModelArn"], config["EndpointConfigArn"]


def check(reader: Any, name: str, kind: str, arn: str) -> None:
    """It is described, tagged and listed."""
    described = getattr(reader, f"describe_{kind}")
    assert described(**{_member(kind, "Name"): name})[_member(kind, "Arn")] == arn
    assert sorted(reader.list_tags(ResourceArn=arn)["Tags"], key=lambda tag: tag["Key"]) == TAGS[::-1]
    [listed] = getattr(reader, f"list_{kind}s")(NameContains=name)[f"{_member(kind, '')}s"]
    assert listed[_member(kind, "Name")] == name


def _member(kind: str, suffix: str) -> str:
    return "".join(part.capitalize() for part in kind.split("_")) + suffix


def test_what_is_created_at_one_host_is_read_at_the_other_at_once(stack: Stack, hosts: tuple[str, str]) -> None:
    for number in range(TIMES):
        writer, reader = clients(stack, hosts, number)
        name = f"two-hosts-{number:03}"
        model, config = make(writer, name)
        check(reader, name, "model", model)
        check(reader, name, "endpoint_config", config)
        reader.delete_endpoint_config(EndpointConfigName=name)
        writer.delete_model(ModelName=name)
        with pytest.raises(reader.exceptions.ClientError, match="Could not find"):
            reader.describe_model(ModelName=name)


def test_an_endpoint_created_at_one_host_is_waited_for_called_and_deleted_at_the_other(
    stack: Stack, hosts: tuple[str, str]
) -> None:
    for number in range(ENDPOINTS):
        writer, reader = clients(stack, hosts, number)
        name = f"both-hosts-{number}"
        make(writer, name)
        arn = writer.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=TAGS)["EndpointArn"]
        check(reader, name, "endpoint", arn)
        waiter = reader.get_waiter("endpoint_in_service")
        waiter.wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        for url in hosts:
            runtime = client(stack, url, "sagemaker-runtime")
            assert runtime.invoke_endpoint(EndpointName=name, Body=b"hello")["Body"].read() == b"hello"
        reader.delete_endpoint(EndpointName=name)
        writer.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        reader.delete_endpoint_config(EndpointConfigName=name)
        writer.delete_model(ModelName=name)
