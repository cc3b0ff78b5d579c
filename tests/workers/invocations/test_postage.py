"""What becomes of a message that its topic did not take."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.clock import START as NOW
from workers.invocations.postage import (
    PAUSE_LAST_SECONDS,
    REFUSALS_LIMIT,
    RESULT_SECONDS,
    TEST_SECONDS,
    GiveUp,
    Later,
    after_failure,
)


def step(*, is_test: bool = False, is_refusal: bool = False, attempts: int = 1, age: float = 0) -> Later | GiveUp:
    created_at = NOW - timedelta(seconds=age)
    return after_failure(is_test=is_test, is_refusal=is_refusal, attempts=attempts, created_at=created_at, now=NOW)


def test_a_topic_that_says_no_is_believed_after_a_few_times_and_for_a_test_at_once() -> None:
    assert isinstance(step(is_refusal=True, attempts=REFUSALS_LIMIT - 1), Later)
    assert step(is_refusal=True, attempts=REFUSALS_LIMIT) == GiveUp()
    assert step(is_refusal=True, is_test=True) == GiveUp()


@pytest.mark.parametrize(("is_test", "seconds"), [(True, TEST_SECONDS), (False, RESULT_SECONDS)])
def test_one_that_is_away_is_waited_for_as_long_as_the_message_is_worth_it(is_test: bool, seconds: float) -> None:
    assert isinstance(step(is_test=is_test, age=seconds - 2), Later)
    assert step(is_test=is_test, age=seconds) == GiveUp()


@given(st.booleans(), st.integers(1, 10_000), st.floats(0, 2 * RESULT_SECONDS))
def test_every_message_ends_and_never_in_a_hot_loop(is_test: bool, attempts: int, age: float) -> None:
    found = step(is_test=is_test, attempts=attempts, age=age)
    if isinstance(found, Later):
        assert 1 <= (found.due_at - NOW).total_seconds() <= PAUSE_LAST_SECONDS
        assert found.due_at <= NOW - timedelta(seconds=age) + timedelta(seconds=RESULT_SECONDS)
