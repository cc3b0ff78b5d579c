"""What an answer means for an invocation."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.clock import START as NOW
from workers.invocations.plan import (
    ATTEMPTS_LIMIT,
    TEXT_LIMIT,
    Fail,
    Retry,
    Store,
    after_answer,
    after_fault,
    after_timeout,
)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_good_answer_is_stored(status: int) -> None:
    assert after_answer(status, "", 1, NOW) == Store()


@pytest.mark.parametrize("status", [400, 404, 424, 499])
def test_the_model_s_4xx_is_final(status: int) -> None:
    step = after_answer(status, "bad tensor", 1, NOW)
    assert step == Fail(f'Received client error ({status}) from model with message "bad tensor".')


@pytest.mark.parametrize("status", [301, 302, 500, 503, 599])
def test_anything_else_is_tried_again_later(status: int) -> None:
    step = after_answer(status, "oops", 1, NOW)
    assert step == Retry(NOW + timedelta(seconds=1), f'Received server error ({status}) from model with message "oops".')


def test_the_wait_doubles_and_the_attempts_end() -> None:
    waits = [after_fault("It hung.", attempts, NOW) for attempts in (1, 2, 3)]
    assert waits == [
        Retry(NOW + timedelta(seconds=1), "It hung."),
        Retry(NOW + timedelta(seconds=2), "It hung."),
        Fail("It hung. It was tried 3 times."),
    ]


def test_the_end_of_the_caller_s_time_is_final() -> None:
    assert after_timeout(7) == Fail("The model gave no whole answer within 7 s (InvocationTimeoutSeconds).")


def test_a_nul_in_the_model_s_words_is_replaced() -> None:
    step = after_answer(400, "no\x00no", 1, NOW)
    assert isinstance(step, Fail)
    assert '"no\ufffdno"' in step.text


@given(st.integers(100, 999), st.text(max_size=3 * TEXT_LIMIT), st.integers(1, 10))
def test_every_answer_has_one_outcome_of_bounded_size(status: int, text: str, attempts: int) -> None:
    step = after_answer(status, text, attempts, NOW)
    assert isinstance(step, Store) is (200 <= status < 300)
    if isinstance(step, Retry):
        assert attempts < ATTEMPTS_LIMIT
        assert step.due_at > NOW
    elif isinstance(step, Fail):
        assert len(step.text) < TEXT_LIMIT + 200
