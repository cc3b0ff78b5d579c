"""An EC2 provider over the fake of one process, under a clock that the test moves."""

from collections.abc import Mapping
from typing import Any

from workers.providers.base import LaunchRequest
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.settings import Settings

ZONE, OTHER_ZONE = "us-east-1a", "us-east-1b"
TYPE, EC2_TYPE = "ml.g5.2xlarge", "g5.2xlarge"
SUBNETS = {"subnet-0000000a": ZONE, "subnet-0000000b": OTHER_ZONE}
NEEDED: Mapping[str, str] = {
    "HEADRACE_EC2_AMI": "ami-00000001",
    "HEADRACE_EC2_SUBNETS": '{"us-east-1a": "subnet-0000000a", "us-east-1b": "subnet-0000000b"}',
}


def env_of(fake: FakeEc2, **more: str) -> dict[str, str]:
    """The environment that points a provider at the fake; `more` by the names after HEADRACE_EC2_."""
    named = {f"HEADRACE_EC2_{name}": value for name, value in more.items()}
    return {**NEEDED, "HEADRACE_EC2_ENDPOINT_URL": fake.url, **named}


def settings(**more: str) -> Settings:
    """The settings read with `more`, by the names after HEADRACE_EC2_."""
    return Settings.read({**NEEDED, **{f"HEADRACE_EC2_{name}": value for name, value in more.items()}})


def request_for(token: str = "t", **what: Any) -> LaunchRequest:
    """A request for TYPE in ZONE."""
    asked: dict[str, Any] = {"owner": "us", "instance_type": TYPE, "zone": ZONE, "image": "acme/llm:1", **what}
    return LaunchRequest(token=token, **asked)
