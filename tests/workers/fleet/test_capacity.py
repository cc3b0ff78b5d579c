"""How long refusals are remembered, and how long a walk over all pools waits."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.fleet.worlds import NOW, ago
from workers.fleet.capacity import (
    BACKOFF_LAST_SECONDS,
    MARK_LAST_SECONDS,
    SAME_WAVE_SECONDS,
    backoff_seconds,
    mark_seconds,
    streak_after,
)


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
    holds = NOW + timedelta(seconds=60)
    assert streak_after(2, ago(SAME_WAVE_SECONDS - 1), holds, NOW) == 2
    assert streak_after(2, ago(SAME_WAVE_SECONDS), holds, NOW) == 3


def test_a_probe_that_is_refused_lengthens_even_a_mark_shorter_than_a_wave() -> None:
    assert streak_after(2, ago(SAME_WAVE_SECONDS - 1), NOW, NOW) == 3
