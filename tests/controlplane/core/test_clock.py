"""Going by a time that is told: what the host's own clock does is of no consequence."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import clock
from controlplane.core.clock import TOLERANCE_SECONDS, CarriedClock
from tests.fakes.clock import START, FakeClock

HOUR = 3600.0
NEWS = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def host() -> FakeClock:
    """The host's own clock."""
    return FakeClock()


@pytest.fixture
def carried(host: FakeClock) -> Iterator[CarriedClock]:
    """Over that host, in use."""
    made = CarriedClock(host)
    previous = clock.use(made)
    yield made
    clock.use(previous)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-2 * HOUR, 2 * HOUR)), max_size=20))
def test_only_time_that_passes_moves_it_wherever_the_host_s_clock_jumps(steps: list[tuple[float, float]]) -> None:
    host = FakeClock()
    carried, passed = CarriedClock(host), 0.0
    for seconds, jump in steps:
        host.step(seconds)
        host.jump(jump)
        passed += seconds
        assert abs((carried.now() - START).total_seconds() - passed) < 0.001
        assert abs(carried.monotonic() - passed) < 0.001


def test_what_it_is_told_it_goes_by_from_then_on(host: FakeClock, carried: CarriedClock) -> None:
    for it_is in (NEWS, NEWS - timedelta(hours=1), NEWS + timedelta(hours=1)):
        clock.told(it_is)
        host.step(5)
        host.jump(-HOUR)
        assert clock.now() == it_is + timedelta(seconds=5)


def test_the_moment_for_which_an_answer_was_under_way_sets_nothing_back(host: FakeClock, carried: CarriedClock) -> None:
    clock.told(clock.now() - timedelta(seconds=TOLERANCE_SECONDS))
    assert clock.now() == START


def test_who_is_behind_by_however_little_follows_at_once(host: FakeClock, carried: CarriedClock) -> None:
    """What was queued a moment ago by a clock that is ahead would not be due yet."""
    clock.told(START + timedelta(milliseconds=1))
    assert clock.now() == START + timedelta(milliseconds=1)


def test_it_is_utc_whatever_zone_the_teller_has(carried: CarriedClock) -> None:
    clock.told(NEWS.astimezone(timezone(timedelta(hours=5))))
    assert clock.now().isoformat() == NEWS.isoformat()


def test_a_clock_that_cannot_be_told_is_left_alone(fake_clock: FakeClock) -> None:
    clock.told(NEWS)
    assert clock.now() == START
