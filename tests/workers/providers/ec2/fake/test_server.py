"""The fake as operators meet it: over HTTP, with its knobs, its journal and its machines."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.sites import ROOT
from tests.controlplane.routing.peers import free_port
from tests.fakes.clock import FakeClock
from tests.workers.providers.ec2.site import EC2_TYPE, SUBNETS, ZONE, env_of, request_for
from workers.providers.base import InstanceStatus
from workers.providers.ec2.fake.faults import KNOBS
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import REMEMBERED_SECONDS, World
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.errors import ErrorKind, ProviderError


def order(fake: FakeEc2, route: str, what: Any) -> int:
    """Turn something by HTTP; the status."""
    request = urllib.request.Request(fake.url + route, json.dumps(what).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def kind_of_launch(provider: Ec2Provider, **what: Any) -> ErrorKind | None:
    try:
        provider.launch(request_for(**what))
    except ProviderError as error:
        return error.kind
    return None


def test_shortages_can_be_ordered_by_type_and_by_zone(fake: FakeEc2, provider: Ec2Provider) -> None:
    assert order(fake, "/capacity", {EC2_TYPE: 0}) == 200
    assert kind_of_launch(provider, token="a") is ErrorKind.CAPACITY
    assert order(fake, "/capacity", {EC2_TYPE: {ZONE: 1}}) == 200
    assert kind_of_launch(provider, token="b") is None
    assert kind_of_launch(provider, token="c") is ErrorKind.CAPACITY


def test_knobs_quotas_and_refusals_can_be_ordered(fake: FakeEc2, provider: Ec2Provider) -> None:
    assert order(fake, "/knobs", {"throttle": {EC2_TYPE: 1}}) == 200
    assert kind_of_launch(provider, token="a") is ErrorKind.THROTTLED
    assert order(fake, "/refusals", {EC2_TYPE: {"code": "OptInRequired"}}) == 200
    assert kind_of_launch(provider, token="a") is ErrorKind.MISCONFIGURED
    assert order(fake, "/refusals", {EC2_TYPE: {"code": ""}}) == 200
    assert order(fake, "/quotas", {"on-demand": 0}) == 200
    assert kind_of_launch(provider, token="a") is ErrorKind.QUOTA


def test_what_happens_to_machines_can_be_ordered(fake: FakeEc2, provider: Ec2Provider) -> None:
    launched = provider.launch(request_for())
    assert order(fake, "/hands", {"shut_down": {"instance_id": launched.provider_id, "last_words": "x"}}) == 200
    assert provider.describe([launched.provider_id])[launched.provider_id].status is InstanceStatus.EXITED


@pytest.mark.parametrize(
    ("route", "what"),
    [
        ("/knobs", {"no_such_knob": 1}),
        ("/knobs", {"throttle": "many"}),
        ("/capacity", []),
        ("/hands", {"begin_end": {}}),
        ("/hands", {"shut_down": {"instance_id": "i-0", "last_words": ""}}),
        ("/hands", {"shut_down": {}}),
        ("/refusals", {"x": {"no": 1}}),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(fake: FakeEc2, route: str, what: Any) -> None:
    assert order(fake, route, what) == 400


def test_the_journal_tells_every_call_and_its_result(fake: FakeEc2, provider: Ec2Provider) -> None:
    fake.world.set_capacity(EC2_TYPE, 0)
    kind_of_launch(provider)
    with urllib.request.urlopen(f"{fake.url}/calls", timeout=30) as answer:
        found = json.load(answer)
    assert [(call["action"], call["instance_type"], call["result"]) for call in found] == [
        ("RunInstances", EC2_TYPE, "InsufficientInstanceCapacity")
    ]


def test_every_knob_is_explained() -> None:
    explained = (ROOT / "workers/providers/ec2/fake/faults.py").read_text().split('"""')[1]
    assert [name for name in sorted(KNOBS) if f"\n    {name} " not in explained] == []


def test_the_dead_are_forgotten_after_an_hour_and_their_tokens_stay_spent(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    launched = provider.launch(request_for())
    provider.terminate(launched.provider_id)
    fake_clock.step(REMEMBERED_SECONDS + 1)
    assert kind_of_launch(provider) is ErrorKind.THROTTLED
    assert world.instances == {}


@pytest.fixture
def machines(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEc2]:
    """A fake whose instances answer."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    with FakeEc2(World(SUBNETS), machine_port=free_port()) as running:
        yield running


def test_a_machine_answers_while_it_runs_and_is_well(machines: FakeEc2, fake_clock: FakeClock, tmp_path: Path) -> None:
    provider, world = Ec2Provider(tmp_path, env_of(machines, PORT=str(machines.machine_port))), machines.world
    world.set_knob("boot_seconds", 10)
    ids = [provider.launch(request_for(token)).provider_id for token in ("a", "b")]
    fake_clock.step(10)
    one, other = (provider.describe(ids)[each] for each in ids)
    assert one.address != other.address
    assert provider.ping(one, 30.0).is_healthy
    world.set_knob("is_sick", 1)
    assert not provider.ping(one, 30.0).is_healthy
    world.set_knob("is_sick", 0)
    provider.terminate(ids[0])
    assert not provider.ping(one, 30.0).is_healthy
    assert provider.ping(other, 30.0).is_healthy


def test_a_machine_answers_a_call_with_its_body(machines: FakeEc2, tmp_path: Path) -> None:
    provider = Ec2Provider(tmp_path, env_of(machines, PORT=str(machines.machine_port)))
    launched = provider.launch(request_for())
    request = urllib.request.Request(f"http://{launched.address}/invocations", b"hello")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.read() == b"hello"


def test_it_is_a_program_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    command = [sys.executable, "-m", "workers.providers.ec2.fake", "--subnet", "subnet-0000000a=us-east-1a"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name, _, url = process.stdout.readline().strip().partition("=")
        env = {
            name: url,
            "HEADRACE_EC2_AMI": "ami-00000001",
            "HEADRACE_EC2_SUBNETS": '{"us-east-1a": "subnet-0000000a"}',
        }
        launched = Ec2Provider(tmp_path, env).launch(request_for())
        process.terminate()
    assert launched.provider_id.startswith("i-")
