"""A control plane in one process: the real database, the simulated world, a clock moved by hand, and no messages."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.conf import settings

from controlplane.auth.models import Account, Installation
from controlplane.core import hints
from tests.fakes.clock import FakeClock
from tests.workers.plane import Plane
from workers.providers import registry
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World


class SilentDoorbell:
    """No message is ever delivered: whatever converges, converges by the scan."""

    def ring(self, task: str, subject: object) -> None:
        """Say nothing."""


@pytest.fixture
def plane(transactional_db: None, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    """A fresh control plane."""
    provider = SimulatedProvider(World(":memory:"))
    monkeypatch.setattr(registry, "get", lambda name: provider)
    monkeypatch.setattr(hints, "doorbell", SilentDoorbell)
    Account.objects.create(account_id=settings.HEADRACE.account_id, created_at=fake_clock.now())
    Installation.objects.create(id=1, owner="tests", created_at=fake_clock.now())
    yield Plane(provider, fake_clock)
    provider.world.close()


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The operator's price table, to be written into."""
    table: dict[str, float] = {}
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, prices=table))
    return table
