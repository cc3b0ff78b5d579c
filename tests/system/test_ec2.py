"""The whole of Headrace over EC2: the fake one, whose instances answer at addresses of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.routing.peers import free_port
from tests.system.stack import FIRST, SECOND, Stack
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import World

CONSISTENCY_SECONDS = 2


class Ec2Stack(Stack):
    """A Headrace whose instances are EC2's."""

    image = "acme/llm:1"

    def __init__(self, data_dir: Path, fake: FakeEc2) -> None:
        super().__init__(data_dir)
        self._env |= {
            "HEADRACE_PROVIDER": "ec2",
            "HEADRACE_EC2_ENDPOINT_URL": fake.url,
            "HEADRACE_EC2_AMI": "ami-00000001",
            "HEADRACE_EC2_SUBNETS": '{"us-east-1a": "subnet-00000001", "us-east-1b": "subnet-00000002"}',
            "HEADRACE_EC2_PORT": str(fake.machine_port),
            "HEADRACE_EC2_CONSISTENCY_SECONDS": str(CONSISTENCY_SECONDS),
        }


@pytest.fixture
def fake() -> Iterator[FakeEc2]:
    """An EC2 in which the first type is short, boots take a second, and one launch's reply is lost."""
    world = World({"subnet-00000001": "us-east-1a", "subnet-00000002": "us-east-1b"})
    world.set_capacity(FIRST.removeprefix("ml."), 0)
    world.set_knob("boot_seconds", 1)
    world.set_knob("consistency_seconds", CONSISTENCY_SECONDS)
    world.set_knob("lose_replies", 1, SECOND.removeprefix("ml."))
    with FakeEc2(world, machine_port=free_port()) as running:
        yield running


def test_an_endpoint_falls_back_serves_and_leaves_nothing_behind(tmp_path: Path, fake: FakeEc2) -> None:
    stack = Ec2Stack(tmp_path, fake)
    stack.start()
    try:
        sm, runtime = stack.client("sagemaker"), stack.client("sagemaker-runtime")
        sm.create_model(ModelName="echo", PrimaryContainer={"Image": stack.image, "Environment": {"A": "'$x\n"}})
        pools = [{"InstanceType": FIRST, "Priority": 1}, {"InstanceType": SECOND, "Priority": 2}]
        variant = {"VariantName": "main", "ModelName": "echo", "InitialInstanceCount": 2, "InstancePools": pools}
        sm.create_endpoint_config(EndpointConfigName="echo", ProductionVariants=[variant])
        sm.create_endpoint(EndpointName="echo", EndpointConfigName="echo")
        sm.get_waiter("endpoint_in_service").wait(EndpointName="echo", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        assert [each.instance_type for each in fake.world.live()] == [SECOND.removeprefix("ml.")] * 2
        answer = runtime.invoke_endpoint(EndpointName="echo", Body=b"hello", ContentType="text/plain")
        assert answer["Body"].read() == b"hello"
        sm.delete_endpoint(EndpointName="echo")
        sm.get_waiter("endpoint_deleted").wait(EndpointName="echo", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
        assert fake.world.live() == []
    finally:
        stack.stop()
    launched = [call for call in fake.world.calls() if call.result in ("lost", "ok")]
    assert {call.instance_type for call in launched} == {SECOND.removeprefix("ml.")}
    assert [call.result for call in launched].count("lost") == 1
    assert len({call.token for call in launched}) == 2, "whatever is repeated starts nothing"
