"""Ejection, and the slow start."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.health import (
    FAILURES_LIMIT,
    FIRST_OUT_SECONDS,
    FIRST_SHARE,
    LONGEST_OUT_SECONDS,
    Health,
    let_in,
    out_seconds,
    ramp,
)


def after_failures(count: int, health: Health | None = None, now: float = 0.0) -> Health:
    health = health or Health()
    for _ in range(count):
        health = health.failed(now)
    return health


def test_failures_in_a_row_eject_for_a_while() -> None:
    assert not after_failures(FAILURES_LIMIT - 1).is_out(0.0)
    ejected = after_failures(FAILURES_LIMIT)
    assert ejected.is_out(FIRST_OUT_SECONDS - 0.1)
    assert not ejected.is_out(FIRST_OUT_SECONDS)


def test_a_success_in_between_starts_the_count_anew() -> None:
    health = after_failures(FAILURES_LIMIT - 1).succeeded(0.0)
    assert not after_failures(FAILURES_LIMIT - 1, health).is_out(0.0)


def test_one_more_failure_after_the_return_ejects_for_twice_as_long() -> None:
    health = after_failures(FAILURES_LIMIT).failed(FIRST_OUT_SECONDS)
    assert health.is_out(FIRST_OUT_SECONDS + 2 * FIRST_OUT_SECONDS - 0.1)


def test_the_longest_ejection_is_bounded() -> None:
    assert [out_seconds(number) for number in (1, 2, 3, 60, 10_000)] == [10.0, 20.0, 40.0, 300.0, 300.0]


def test_failures_of_calls_that_were_under_way_change_nothing() -> None:
    ejected = after_failures(FAILURES_LIMIT)
    assert after_failures(20, ejected, now=1.0) == ejected


def test_an_answer_ends_the_ejection() -> None:
    assert not after_failures(FAILURES_LIMIT).succeeded(1.0).is_out(1.0)


def test_ejections_are_forgotten_once_it_did_well_for_as_long_again() -> None:
    back = after_failures(FAILURES_LIMIT)
    assert back.succeeded(FIRST_OUT_SECONDS + 1).ejections == 1
    assert back.succeeded(2 * FIRST_OUT_SECONDS).ejections == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 50)), max_size=60))
def test_an_ejection_never_lasts_longer_than_the_longest_and_needs_its_failures(steps: list[tuple[bool, float]]) -> None:
    health, now, in_a_row = Health(), 0.0, 0
    for is_failure, pause in steps:
        now += pause
        was_out = health.is_out(now)
        health = health.failed(now) if is_failure else health.succeeded(now)
        in_a_row = in_a_row + 1 if is_failure else 0
        assert health.out_until - now <= LONGEST_OUT_SECONDS
        assert not health.is_out(now) or was_out or in_a_row >= FAILURES_LIMIT or health.ejections > 1
        assert health.failures < FAILURES_LIMIT


# Who is let in.


def let(states: Mapping[str, float], now: float = 0.0) -> list[str]:
    """Who is let in of instances that are out until these times."""
    return let_in([*states], lambda name: Health(out_until=states[name]), now)


def test_the_ones_that_are_out_are_left_out() -> None:
    assert let({"a": 0.0, "b": 5.0, "c": 0.0}) == ["a", "c"]


@pytest.mark.parametrize("states", [{"a": 9.0}, {"a": 9.0, "b": 3.0}, {"a": 9.0, "b": 3.0, "c": 5.0}])
def test_the_last_ones_stay_in_first_those_that_return_first(states: dict[str, float]) -> None:
    needed = -(-len(states) // 2)
    assert set(let(states)) == set(sorted(states, key=states.__getitem__)[:needed])


@given(st.dictionaries(st.text(max_size=3), st.floats(-10, 10), min_size=1, max_size=12))
def test_somebody_always_takes_calls_and_nobody_well_is_left_out(states: dict[str, float]) -> None:
    kept = let(states)
    assert len(kept) >= max(1, len(states) / 2)
    assert set(kept) >= {name for name, until in states.items() if until <= 0}
    assert kept == [name for name in states if name in kept]


# The slow start.


def test_a_newcomer_begins_with_a_tenth_and_ends_with_the_whole() -> None:
    assert ramp(0.0, 30.0) == FIRST_SHARE
    assert ramp(15.0, 30.0) == pytest.approx((FIRST_SHARE + 1) / 2)
    assert ramp(30.0, 30.0) == 1.0
    assert ramp(0.0, 0.0) == 1.0


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0.1, 60))
def test_the_share_only_grows(one: float, two: float, over: float) -> None:
    young, old = sorted((one, two))
    assert FIRST_SHARE <= ramp(young, over) <= ramp(old, over) <= 1.0
