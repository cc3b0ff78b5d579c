"""One suite, all providers: what the fleet controller relies on."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.waiting import child_of, wait
from workers.providers.base import InstanceStatus, LaunchRequest, Provider, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.local.processes import Directory, root
from workers.providers.local.provider import LocalProvider
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

TYPE = "ml.m5.large"


class Subject:
    """A provider under test and the operator's hand on it."""

    def __init__(self, provider: Provider, set_slots: Callable[[int], None], kill: Callable[[str], None]) -> None:
        self.provider = provider
        self.set_slots = set_slots
        self.kill = kill

    def launch(self, token: str, owner: str = "me") -> ProviderInstance:
        """Launch the reference container."""
        zone = self.provider.zones[0]
        return self.provider.launch(LaunchRequest(token, owner, TYPE, zone, "headrace/reference"))

    def running(self, token: str) -> ProviderInstance:
        """The token's instance once it runs."""
        return wait(lambda: (i := self.provider.find(token)) and i.status is InstanceStatus.RUNNING and i)

    def end_all(self) -> None:
        """Leave nothing behind."""
        for owner in ("me", "other"):
            for instance in self.provider.list_owned(owner):
                self.provider.terminate(instance.provider_id)
            wait(lambda owner=owner: not self.provider.list_owned(owner))


@pytest.fixture(params=["local", "simulated"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    """Each provider in turn."""
    if request.param == "local":
        local = LocalProvider(tmp_path, os.environ, grace_seconds=1)
        made = Subject(local, lambda slots: local.set_capacity(TYPE, slots), lambda i: _kill(tmp_path, i))
    else:
        world = World(tmp_path / "world.sqlite3")
        simulated = SimulatedProvider(world)
        set_slots = lambda slots: world.set_capacity(TYPE, slots)  # noqa: E731
        made = Subject(simulated, set_slots, lambda i: world.fail(i, "killed"))
    made.set_slots(4)
    yield made
    made.end_all()
    if request.param == "simulated":
        world.close()


def _kill(data_dir: Path, provider_id: str) -> None:
    state = Directory(root(data_dir) / provider_id).state
    assert state is not None
    os.kill(child_of(state["pid"]), 9)


def test_a_token_launches_once(subject: Subject) -> None:
    first, again = subject.launch("t"), subject.launch("t")
    assert first.provider_id == again.provider_id
    assert first.launched_at == again.launched_at
    assert len(subject.provider.list_owned("me")) == 1


def test_slots_are_filled_as_far_as_they_go_and_then_refused_as_capacity(subject: Subject) -> None:
    subject.set_slots(2)
    subject.launch("a")
    subject.launch("b")
    with pytest.raises(ProviderError) as refused:
        subject.launch("c")
    assert refused.value.kind is ErrorKind.CAPACITY
    assert TYPE in refused.value.message
    assert subject.provider.find("c") is None


def test_concurrent_launches_never_exceed_the_slots(subject: Subject) -> None:
    subject.set_slots(3)

    def attempt(number: int) -> str:
        try:
            subject.launch(f"t{number}")
        except ProviderError as error:
            return error.kind.value
        return "launched"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attempt, range(8)))
    assert sorted(results) == ["capacity"] * 5 + ["launched"] * 3
    assert len(subject.provider.list_owned("me")) == 3


def test_an_instance_is_found_described_and_listed_for_its_owner_alone(subject: Subject) -> None:
    mine, other = subject.launch("a"), subject.launch("b", owner="other")
    found = subject.provider.find("a")
    assert found is not None
    assert found.provider_id == mine.provider_id
    assert set(subject.provider.describe([mine.provider_id, "unknown"])) == {mine.provider_id}
    assert [each.provider_id for each in subject.provider.list_owned("me")] == [mine.provider_id]
    assert [each.provider_id for each in subject.provider.list_owned("other")] == [other.provider_id]


def test_a_terminated_instance_is_gone_and_frees_its_slot(subject: Subject) -> None:
    subject.set_slots(1)
    instance = subject.launch("a")
    subject.provider.terminate(instance.provider_id)
    wait(lambda: not subject.provider.describe([instance.provider_id]))
    assert subject.provider.find("a") is None
    subject.launch("b")
    with pytest.raises(ProviderError) as refused:
        subject.provider.terminate(instance.provider_id)
    assert refused.value.kind is ErrorKind.GONE


def test_an_instance_that_dies_shows_why_until_it_is_terminated(subject: Subject) -> None:
    instance = subject.launch("a")
    subject.running("a")
    subject.kill(instance.provider_id)
    exited = wait(lambda: (i := subject.provider.find("a")) and i.status is InstanceStatus.EXITED and i)
    assert exited.failure is StartFailure.CONTAINER_EXITED
    assert exited.detail
    subject.provider.terminate(instance.provider_id)
    wait(lambda: subject.provider.find("a") is None)


def test_lowered_capacity_leaves_running_instances_alone(subject: Subject) -> None:
    subject.launch("a")
    subject.set_slots(0)
    assert subject.running("a").status is InstanceStatus.RUNNING
    with pytest.raises(ProviderError):
        subject.launch("b")


@pytest.mark.parametrize("token", ["../../escape", "a/b", "x" * 64, "\u00e4 ;rm"])
def test_no_token_steers_anything(subject: Subject, token: str, tmp_path: Path) -> None:
    instance = subject.launch(token)
    assert "/" not in instance.provider_id
    found = subject.provider.find(token)
    assert found is not None
    assert found.token == token


def test_a_running_instance_answers_ping(subject: Subject) -> None:
    subject.launch("a")
    instance = subject.running("a")
    wait(lambda: subject.provider.ping(instance, 2.0).is_healthy)
