"""One site for each provider: the provider over fresh state, and the few things that a test must be able to cause."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.contract.waiting import wait
from tests.controlplane.routing.peers import free_port
from workers.providers.base import InstanceStatus, LaunchRequest, Provider, ProviderInstance
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import World
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.ec2.user_data import END_MARK
from workers.providers.local import stop
from workers.providers.local.provider import LocalProvider
from workers.providers.simulated.provider import SimulatedProvider

TYPE, OTHER_TYPE = "ml.g5.2xlarge", "ml.m5.large"
ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
"""How long processes of a site may take, on a machine that does other things as well."""


class Site(Protocol):
    """A provider under test, with its state on disk so that other processes can use it too."""

    name: str
    data_dir: Path
    env: Mapping[str, str]
    """What the provider was made with, from which another process can make it too."""

    @property
    def provider(self) -> Provider:
        """The provider."""

    def set_capacity(self, instance_type: str, slots: int) -> None:
        """Let so many of this type live at once."""

    def break_container(self, instance: ProviderInstance) -> None:
        """Let the container of a running instance end by itself, with code 1."""

    def another(self) -> "Site":
        """The same site as another process would have it."""

    def close(self) -> None:
        """Leave nothing behind."""


@dataclass
class LocalSite:
    """Real processes."""

    data_dir: Path
    name: str = "local"

    def __post_init__(self) -> None:
        self.env = environment()
        self.provider = LocalProvider(self.data_dir, self.env, grace_seconds=2.0)

    def set_capacity(self, instance_type: str, slots: int) -> None:
        self.provider.set_capacity(instance_type, slots)

    def break_container(self, instance: ProviderInstance) -> None:
        wait(lambda: self.provider.ping(instance, 1.0).is_healthy)
        connection = http.client.HTTPConnection(instance.address, timeout=30)
        connection.request("POST", "/invocations", b"#mode=crash\n")
        wait(lambda: self.provider.describe([instance.provider_id])[instance.provider_id].status == "exited")
        connection.close()

    def another(self) -> Site:
        return LocalSite(self.data_dir)

    def close(self) -> None:
        assert stop.main(self.data_dir, patience_seconds=PATIENCE_SECONDS) == 0


@dataclass
class SimulatedSite:
    """The stored world."""

    data_dir: Path
    name: str = "simulated"

    def __post_init__(self) -> None:
        self.env: Mapping[str, str] = {}
        self.provider = SimulatedProvider.stored(self.data_dir, self.env)

    def set_capacity(self, instance_type: str, slots: int) -> None:
        self.provider.world.set_capacity(instance_type, slots)

    def break_container(self, instance: ProviderInstance) -> None:
        self.provider.world.fail(instance.provider_id, "exited with code 1")

    def another(self) -> Site:
        return SimulatedSite(self.data_dir)

    def close(self) -> None:
        self.provider.world.close()


@dataclass
class Ec2Site:
    """The real provider over the fake EC2, whose instances answer at addresses of their own."""

    data_dir: Path
    name: str = "ec2"
    shared: FakeEc2 | None = None

    def __post_init__(self) -> None:
        machine_port = free_port()
        self.fake = self.shared or FakeEc2(World({"subnet-00000001": "us-east-1a"}), machine_port=machine_port).__enter__()
        self.env = {
            "HEADRACE_EC2_ENDPOINT_URL": self.fake.url,
            "HEADRACE_EC2_AMI": "ami-00000001",
            "HEADRACE_EC2_SUBNETS": '{"us-east-1a": "subnet-00000001"}',
            "HEADRACE_EC2_PORT": str(self.fake.machine_port),
            "HEADRACE_EC2_CONSISTENCY_SECONDS": "0",
        }
        self.provider = Ec2Provider(self.data_dir, self.env)

    def set_capacity(self, instance_type: str, slots: int) -> None:
        self.fake.world.set_capacity(instance_type.removeprefix("ml."), slots)

    def break_container(self, instance: ProviderInstance) -> None:
        self.fake.world.shut_down(instance.provider_id, f"{END_MARK} container_exited exited with code 1")

    def another(self) -> Site:
        return Ec2Site(self.data_dir, shared=self.fake)

    def close(self) -> None:
        if self.shared is None:
            self.fake.__exit__()


SITES: dict[str, Callable[[Path], Site]] = {"ec2": Ec2Site, "local": LocalSite, "simulated": SimulatedSite}


def environment() -> Mapping[str, str]:
    """What a provider is given when nothing is set."""
    return {"PATH": os.environ["PATH"]}


def request_for(
    provider: Provider, token: str, *, owner: str = "us", instance_type: str = TYPE, image: str = "headrace/reference"
) -> LaunchRequest:
    """A request in the provider's first zone."""
    return LaunchRequest(token=token, owner=owner, instance_type=instance_type, zone=provider.zones[0], image=image)


def running(provider: Provider, instance: ProviderInstance) -> ProviderInstance:
    """The instance once it runs."""

    def look() -> ProviderInstance | None:
        seen = provider.describe([instance.provider_id])[instance.provider_id]
        return seen if seen.status is InstanceStatus.RUNNING else None

    seen: ProviderInstance = wait(look)
    return seen


def launch_in_processes(site: Site, tokens_of_each: list[list[str]]) -> list[str]:
    """Launch from several processes at once; what each launch came to: a provider id or the kind of the error."""
    command = [sys.executable, "-m", "tests.contract.launcher", site.name, str(site.data_dir)]
    processes = [
        subprocess.Popen([*command, json.dumps(tokens), json.dumps(dict(site.env))], cwd=ROOT, stdout=subprocess.PIPE)
        for tokens in tokens_of_each
    ]
    return [line for process in processes for line in process.communicate(timeout=2 * PATIENCE_SECONDS)[0].decode().split()]
