"""The scheduler on a host whose clock is wrong: it goes by the database's."""

from collections.abc import Iterator

import pytest

from controlplane.core import clock
from controlplane.core.clock import CarriedClock, SystemClock
from controlplane.observability.models import Heartbeat
from tests.fakes.clock import WrongClock
from workers.schedule import Scheduler

HOUR = 3600.0


def seconds_off() -> float:
    """How far from the truth the time is that the process goes by."""
    return abs((clock.now() - SystemClock().now()).total_seconds())


@pytest.fixture
def host() -> Iterator[WrongClock]:
    """The host's clock, used as schedulers do."""
    made = WrongClock()
    previous = clock.use(SystemClock())
    yield made
    clock.use(previous)


@pytest.mark.parametrize("ahead", [HOUR, -HOUR], ids=["ahead", "behind"])
@pytest.mark.django_db(transaction=True)
def test_it_knows_the_time_before_it_looks_for_what_is_due(
    host: WrongClock, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.ahead = ahead
    clock.use(CarriedClock(host))
    assert seconds_off() > HOUR - 60
    scheduler = Scheduler()
    off_at_the_scan: list[float] = []
    monkeypatch.setattr(scheduler, "scan", lambda: off_at_the_scan.append(seconds_off()))
    scheduler.step()
    scheduler.finish()
    assert off_at_the_scan[0] < 60
    assert list(Heartbeat.objects.values_list("role", flat=True)) == ["scheduler"]
