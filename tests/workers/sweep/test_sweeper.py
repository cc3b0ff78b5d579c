"""The sweep in its thread: a provider that hangs keeps nothing else waiting."""

import threading

import pytest

from tests.workers.plane import Plane
from workers.providers import registry
from workers.providers.base import ProviderInstance
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World
from workers.sweep.sweeper import Sweeper


class HangingProvider(SimulatedProvider):
    """A provider whose listing answers only once it is let go."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.listings = 0
        self.fails = False
        self.is_listing, self.let_go = threading.Event(), threading.Event()

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        self.listings += 1
        self.is_listing.set()
        self.let_go.wait(30)
        if self.fails:
            raise RuntimeError("nobody expected this")
        return super().list_owned(owner)


@pytest.fixture
def hanging(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> HangingProvider:
    """The plane's world behind a provider that hangs."""
    provider = HangingProvider(plane.world)
    monkeypatch.setattr(registry, "get", lambda name: provider)
    return provider


def test_whoever_starts_a_sweep_does_not_wait_for_it(plane: Plane, hanging: HangingProvider) -> None:
    sweeper = Sweeper()
    sweeper.start()
    assert hanging.is_listing.wait(30)
    sweeper.start()
    assert sweeper.sweeps == 1, "one sweep at a time"
    hanging.let_go.set()
    sweeper.stop()
    assert hanging.listings == 1


def test_a_sweep_that_fails_does_not_end_the_sweeper(plane: Plane, hanging: HangingProvider) -> None:
    hanging.let_go.set()
    hanging.fails = True
    sweeper = Sweeper()
    sweeper.start()
    assert hanging.is_listing.wait(30)
    pause = threading.Event()
    while sweeper.sweeps == 1:
        sweeper.start()
        pause.wait(0.01)
    sweeper.stop()
    assert hanging.listings == 2
