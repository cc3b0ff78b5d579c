"""The providers under the matrix: each over fresh state, with what a scenario must be able to cause in its world."""

import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from controlplane.core import clock
from tests.contract.sites import PATIENCE_SECONDS, environment
from tests.contract.waiting import wait
from tests.controlplane.routing.peers import free_port
from workers.providers.base import InstanceStatus, Provider
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import Instance as Ec2Instance
from workers.providers.ec2.fake.world import World as Ec2World
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.ec2.request import TAG_TOKEN
from workers.providers.ec2.user_data import END_MARK
from workers.providers.local import processes, stop
from workers.providers.local.provider import LocalProvider
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

OWNER = "tests"
DIED = "killed by SIGKILL"


@dataclass(frozen=True)
class Real:
    """An instance that the provider has and that is not on its way out there."""

    token: str
    provider_id: str


class Site(Protocol):
    """A provider and its world."""

    def start(self) -> Provider:
        """The provider as a new process makes it: what an old one held in memory is lost."""

    def real(self) -> Iterable[Real]:
        """The instances there are, without fault, delay or boundary."""

    def set_capacity(self, instance_type: str, slots: int) -> None:
        """Let so many of this type live at once."""

    def kill(self, provider_id: str) -> None:
        """Let an instance die."""

    def let_time_pass(self) -> None:
        """What runs in real time may come to rest."""

    def close(self) -> None:
        """Leave nothing behind."""


class SimulatedSite:
    """A simulated world in memory."""

    def __init__(self) -> None:
        self.world = World(":memory:")

    def start(self) -> Provider:
        return SimulatedProvider(self.world)

    def real(self) -> Iterable[Real]:
        return [Real(row.token, row.provider_id) for row in self.world.live() if row.gone_at is None]

    def set_capacity(self, instance_type: str, slots: int) -> None:
        self.world.set_capacity(instance_type, slots)

    def kill(self, provider_id: str) -> None:
        self.world.fail(provider_id, DIED)

    def let_time_pass(self) -> None:
        """Nothing here runs in real time."""

    def close(self) -> None:
        self.world.close()


class LocalSite:
    """Real processes of this host."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.provider = LocalProvider(data_dir, environment(), grace_seconds=0.5)

    def start(self) -> Provider:
        return LocalProvider(self._data_dir, environment(), grace_seconds=0.5)

    def real(self) -> Iterable[Real]:
        owned = self.provider.list_owned(OWNER)
        return [Real(each.token, each.provider_id) for each in owned if each.status is not InstanceStatus.STOPPING]

    def set_capacity(self, instance_type: str, slots: int) -> None:
        self.provider.set_capacity(instance_type, slots)

    def kill(self, provider_id: str) -> None:
        directory = processes.directory(self._data_dir, provider_id)
        assert directory is not None
        assert directory.state is not None
        os.kill(directory.state["pid"], signal.SIGKILL)

    def let_time_pass(self) -> None:
        """Until all are at rest: what a slow machine needs for them is nothing by the clock that jumps."""
        wait(self._is_at_rest, PATIENCE_SECONDS)

    def _is_at_rest(self) -> bool:
        """Whether no process is on its way: each serves, or has ended."""
        return all(
            each.status is InstanceStatus.EXITED
            or (each.status is InstanceStatus.RUNNING and self.provider.ping(each, PATIENCE_SECONDS).is_healthy)
            for each in self.provider.list_owned(OWNER)
        )

    def close(self) -> None:
        assert stop.main(self._data_dir, patience_seconds=PATIENCE_SECONDS) == 0


class Ec2Site:
    """The fake EC2, spoken to over HTTP; its instances answer at addresses of their own."""

    def __init__(self, data_dir: Path, consistency_seconds: int = 0) -> None:
        self._data_dir = data_dir
        self._servers = ExitStack()
        self.world = Ec2World({"subnet-00000001": "us-east-1a"})
        self.world.set_knob("consistency_seconds", max(consistency_seconds - 1, 0))
        fake = self._servers.enter_context(FakeEc2(self.world, machine_port=free_port()))
        self._env = {
            "HEADRACE_EC2_ENDPOINT_URL": fake.url,
            "HEADRACE_EC2_AMI": "ami-00000001",
            "HEADRACE_EC2_SUBNETS": '{"us-east-1a": "subnet-00000001"}',
            "HEADRACE_EC2_PORT": str(fake.machine_port),
            "HEADRACE_EC2_CONSISTENCY_SECONDS": str(consistency_seconds),
        }

    def start(self) -> Provider:
        return Ec2Provider(self._data_dir, self._env)

    def real(self) -> Iterable[Real]:
        now = clock.now()
        with self.world.locked():
            there = [each for each in self.world.instances.values() if each.state(now) in ("pending", "running", "stopped")]
            return [Real(_token_of(each), each.instance_id) for each in there]

    def set_capacity(self, instance_type: str, slots: int) -> None:
        self.world.set_capacity(instance_type.removeprefix("ml."), slots)

    def kill(self, provider_id: str) -> None:
        self.world.shut_down(provider_id, f"{END_MARK} container_exited {DIED}")

    def let_time_pass(self) -> None:
        """Everything here follows the clock."""

    def close(self) -> None:
        self._servers.close()


def _token_of(instance: Ec2Instance) -> str:
    """Our own token: EC2 is given a digest of it."""
    tags = (tag for group in instance.parameters["TagSpecifications"] for tag in group["Tags"])
    return str(next(tag["Value"] for tag in tags if tag["Key"] == TAG_TOKEN))
