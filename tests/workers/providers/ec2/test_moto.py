"""The provider against another's EC2 (moto's server): the wire as somebody else reads it.

moto honours no client tokens and knows no shortages; those are the fake's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from tests import aws
from tests.workers.providers.ec2.site import request_for
from workers.providers.base import InstanceStatus
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.errors import ErrorKind, ProviderError

REGION = "us-east-1"


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    """A moto server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def ec2(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the operator's own."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    return aws.client("ec2", region_name=REGION, endpoint_url=moto_url)


@pytest.fixture
def provider(ec2: Any, moto_url: str, tmp_path: Path) -> Ec2Provider:
    """A provider with an AMI, a subnet and a security group that moto knows."""
    subnet = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": ["us-east-1a"]}])["Subnets"][0]
    group = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])["SecurityGroups"][0]
    env = {
        "HEADRACE_EC2_ENDPOINT_URL": moto_url,
        "HEADRACE_EC2_AMI": ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"],
        "HEADRACE_EC2_SUBNETS": f'{{"us-east-1a": "{subnet["SubnetId"]}"}}',
        "HEADRACE_EC2_SECURITY_GROUPS": group["GroupId"],
        "HEADRACE_EC2_ROOT_GIB": "100",
    }
    return Ec2Provider(tmp_path, env)


def test_an_instance_lives_and_ends_as_the_contract_has_it(provider: Ec2Provider) -> None:
    launched = provider.launch(request_for("life", environment={"A": "'\"$\n"}, labels={"endpoint": "echo"}))
    found = provider.find("life")
    assert found is not None
    assert (found.provider_id, found.token, found.owner, found.instance_type, found.zone) == (
        launched.provider_id,
        "life",
        "us",
        "ml.g5.2xlarge",
        "us-east-1a",
    )
    seen = provider.describe([launched.provider_id, "i-" + "0" * 17])
    assert set(seen) == {launched.provider_id}
    assert seen[launched.provider_id].status is InstanceStatus.RUNNING
    assert seen[launched.provider_id].address.endswith(":8080")
    assert [each.provider_id for each in provider.list_owned("us")] == [launched.provider_id]
    assert provider.list_owned("them") == []
    provider.terminate(launched.provider_id)
    assert provider.describe([launched.provider_id]) == {}
    assert provider.find("life") is None
    assert provider.list_owned("us") == []


def test_what_was_asked_for_is_what_the_other_side_read(provider: Ec2Provider, ec2: Any) -> None:
    launched = provider.launch(request_for("read", labels={"endpoint": "echo", "variant": "main"}))
    item = ec2.describe_instances(InstanceIds=[launched.provider_id])["Reservations"][0]["Instances"][0]
    assert item["InstanceType"] == "g5.2xlarge"
    assert {tag["Key"]: tag["Value"] for tag in item["Tags"]}["headrace:endpoint"] == "echo"
    attribute = ec2.describe_instance_attribute(InstanceId=launched.provider_id, Attribute="userData")
    assert attribute["UserData"]["Value"]
    provider.terminate(launched.provider_id)


def test_an_id_that_moto_does_not_know_is_gone(provider: Ec2Provider) -> None:
    with pytest.raises(ProviderError) as caught:
        provider.terminate("i-" + "0" * 17)
    assert caught.value.kind is ErrorKind.GONE


def test_a_stopped_machine_has_exited(provider: Ec2Provider, ec2: Any) -> None:
    launched = provider.launch(request_for("stopped"))
    ec2.stop_instances(InstanceIds=[launched.provider_id])
    assert provider.describe([launched.provider_id])[launched.provider_id].status is InstanceStatus.EXITED
    provider.terminate(launched.provider_id)
    assert provider.describe([launched.provider_id]) == {}


def test_a_misconfiguration_is_told_from_a_shortage(provider: Ec2Provider, moto_url: str, tmp_path: Path) -> None:
    env = {
        "HEADRACE_EC2_ENDPOINT_URL": moto_url,
        "HEADRACE_EC2_AMI": "ami-00000001",
        "HEADRACE_EC2_SUBNETS": '{"us-east-1a": "subnet-0000dead"}',
    }
    with pytest.raises(ProviderError) as caught:
        Ec2Provider(tmp_path, env).launch(request_for("x"))
    assert caught.value.kind is ErrorKind.MISCONFIGURED
