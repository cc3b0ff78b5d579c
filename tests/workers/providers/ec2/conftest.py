"""The fake EC2 and a provider over it."""

from collections.abc import Iterator
from pathlib import Path

import botocore.loaders
import botocore.session
import pytest

from tests.fakes.clock import FakeClock
from tests.workers.providers.ec2.site import SUBNETS, env_of
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import World
from workers.providers.ec2.provider import Ec2Provider


@pytest.fixture(scope="session", autouse=True)
def shared_models() -> Iterator[None]:
    """Every client would read EC2's model, of several megabytes, afresh; here they share what was read once."""
    loader = botocore.loaders.create_loader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", lambda *_: loader)
        yield


@pytest.fixture
def fake(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEc2]:
    """A fresh EC2, in the time of the fake clock."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    with FakeEc2(World(SUBNETS)) as running:
        yield running


@pytest.fixture
def world(fake: FakeEc2) -> World:
    """What the fake stands on: knobs, capacity and the journal."""
    return fake.world


@pytest.fixture
def provider(fake: FakeEc2, tmp_path: Path) -> Ec2Provider:
    """A provider with what must be set and nothing else."""
    return Ec2Provider(tmp_path, env_of(fake))
