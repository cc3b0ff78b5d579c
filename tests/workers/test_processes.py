"""Workers and schedulers as processes: they go by a time that they are told, whatever their host's clock says."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from controlplane.core import clock
from controlplane.core.clock import SystemClock
from workers import app
from workers.management.commands.scheduler import Command
from workers.schedule import Scheduler

NEWS = datetime(2040, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _clock_of_the_tests() -> Iterator[None]:
    previous = clock.use(SystemClock())
    yield
    clock.use(previous)


def test_a_worker_goes_by_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app._residents, "start", lambda: clock.told(NEWS))
    app.start_residents()
    assert clock.now() >= NEWS


def test_a_scheduler_goes_by_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(Scheduler, "run", lambda self: clock.told(NEWS))
    Command().handle()
    assert clock.now() >= NEWS
