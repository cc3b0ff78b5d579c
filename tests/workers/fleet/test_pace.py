"""The pace of healing: short lives slow it down, long ones and old ones do not."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.fleet.worlds import NOW, variant
from workers.fleet import pace

PASTS = st.lists(st.floats(0.0, 1200.0, allow_nan=False), max_size=30)


def lives(*seconds_ago: float) -> tuple:  # type: ignore[type-arg]
    return tuple(NOW - timedelta(seconds=each) for each in seconds_ago)


def wait_seconds(*seconds_ago: float) -> float:
    found = pace.rest(variant(1, short_lives=lives(*seconds_ago)), NOW)
    return (found.until - NOW).total_seconds() if found else 0.0


def test_nothing_that_ended_soon_means_no_rest() -> None:
    assert pace.rest(variant(1), NOW) is None


def test_each_end_doubles_the_rest_up_to_a_minute() -> None:
    waits = [wait_seconds(*(20.0 * place for place in range(count))) for count in range(1, 9)]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_instances_that_ended_together_count_once() -> None:
    assert wait_seconds(*[0.0] * 50) == 2


def test_the_sentence_says_until_when_and_why() -> None:
    found = pace.rest(variant(1, short_lives=lives(0, 5, 10)), NOW)
    assert found is not None
    assert "3 instances ended soon after they served" in found.why
    assert f"{found.until:%H:%M:%S}" in found.why


@given(PASTS)
def test_the_rest_is_never_longer_than_the_last_back_off_and_ends_by_itself(past: list[float]) -> None:
    assert 0 <= wait_seconds(*past) <= 60
    assert wait_seconds(*(each + pace.MEMORY_SECONDS for each in past)) == 0


@given(PASTS, st.floats(0.0, 1200.0, allow_nan=False))
def test_one_more_short_life_never_makes_the_rest_shorter(past: list[float], another: float) -> None:
    assert wait_seconds(*past, another) >= wait_seconds(*past)
