"""How long refusals are remembered, and how long a walk over all pools waits."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.fleet.worlds import NOW, ago, closed, half_open, mark, opened, pool, variant
from workers.fleet.capacity import (
    BACKOFF_LAST_SECONDS,
    MARK_LAST_SECONDS,
    SAME_WAVE_SECONDS,
    all_closed_after_refusal,
    backoff_seconds,
    is_closed,
    mark_seconds,
    preference,
    streak_after,
)
from workers.fleet.view import Offering


def test_the_back_off_doubles_to_a_minute() -> None:
    assert [backoff_seconds(streak, 0.0) for streak in range(1, 7)] == [5, 10, 20, 40, 60, 60]
    assert [backoff_seconds(streak, 0.0, first=2.0) for streak in (1, 2, 3)] == [2, 4, 8]


@given(st.integers(-5, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_back_off_is_spread_by_no_more_than_a_fifth(streak: int, spread: float) -> None:
    plain = backoff_seconds(streak, 0.0)
    assert 5 <= plain <= BACKOFF_LAST_SECONDS
    assert plain <= backoff_seconds(streak, spread) <= plain * 1.2


def test_a_mark_doubles_with_the_streak_to_half_an_hour() -> None:
    assert [mark_seconds("capacity", streak, 300.0) for streak in range(1, 6)] == [300, 600, 1200, 1800, 1800]
    assert mark_seconds("capacity", 10**6, 300.0) == MARK_LAST_SECONDS


@pytest.mark.parametrize("streak", [1, 5])
def test_a_quota_closes_for_half_an_hour_at_least(streak: int) -> None:
    assert mark_seconds("quota", streak, 60.0) == 1800
    assert mark_seconds("quota", streak, 7200.0) == 7200


def test_a_first_mark_longer_than_the_limit_is_taken_as_it_is() -> None:
    assert mark_seconds("capacity", 3, 7200.0) == 7200


def test_refusals_of_one_wave_lengthen_a_mark_once() -> None:
    assert streak_after(2, ago(SAME_WAVE_SECONDS - 1), NOW) == 2
    assert streak_after(2, ago(SAME_WAVE_SECONDS), NOW) == 3


def test_a_mark_holds_up_to_its_end_and_a_probe_for_as_long_as_it_may_take() -> None:
    assert is_closed(closed(0), NOW)
    assert not is_closed(Offering(pool(), "a", mark(until=NOW)), NOW)
    assert is_closed(half_open(0, is_probed=True), NOW)
    assert not is_closed(half_open(0, is_probed=True), NOW + timedelta(seconds=10))
    assert not is_closed(opened(0), NOW)


def test_a_smaller_priority_number_is_more_wanted_and_ties_go_by_place() -> None:
    pools = [pool(0, priority=2), pool(1, priority=1), pool(2, priority=1)]
    assert [each.position for each in sorted(pools, key=preference)] == [1, 2, 0]


def test_a_refusal_ends_the_walk_only_when_no_other_pool_is_open() -> None:
    assert all_closed_after_refusal(variant(1, opened(0), closed(1)), opened(0), NOW)
    assert not all_closed_after_refusal(variant(1, opened(0), opened(1)), opened(0), NOW)
    assert not all_closed_after_refusal(variant(1, opened(0), half_open(1)), opened(0), NOW)
