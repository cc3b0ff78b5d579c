"""What an answer means for an invocation."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.invocations.models import FailureKind
from tests.fakes.clock import START as NOW
from workers.invocations.plan import (
    ATTEMPTS_LIMIT,
    STORING_SECONDS,
    TEXT_LIMIT,
    WAIT_LAST_SECONDS,
    Fail,
    Kind,
    Retry,
    Store,
    after_answer,
    after_fault,
    after_store_away,
    after_timeout,
    room_for,
    store_pause,
    storing_until,
)


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_good_answer_is_stored(status: int) -> None:
    assert after_answer(status, "", 1, NOW) == Store()


@pytest.mark.parametrize("status", [400, 404, 424, 499])
def test_the_model_s_4xx_is_final(status: int) -> None:
    step = after_answer(status, "bad tensor", 1, NOW)
    assert step == Fail(f'Received client error ({status}) from model with message "bad tensor".', Kind.MODEL_CLIENT_ERROR)


@pytest.mark.parametrize("status", [301, 302, 500, 503, 599])
def test_anything_else_is_tried_again_later(status: int) -> None:
    step = after_answer(status, "oops", 1, NOW)
    assert step == Retry(NOW + timedelta(seconds=1), f'Received server error ({status}) from model with message "oops".')


def test_the_wait_doubles_and_the_attempts_end() -> None:
    waits = [after_fault("It hung.", attempts, NOW) for attempts in (1, 2, 3)]
    assert waits == [
        Retry(NOW + timedelta(seconds=1), "It hung."),
        Retry(NOW + timedelta(seconds=2), "It hung."),
        Fail("It hung. It was tried 3 times.", Kind.NO_ANSWER),
    ]


def test_the_end_of_the_caller_s_time_is_final() -> None:
    text = "The model gave no whole answer within 7 s (InvocationTimeoutSeconds)."
    assert after_timeout(7) == Fail(text, Kind.TIMEOUT)


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


def test_the_model_s_trouble_and_transport_s_are_told_apart() -> None:
    last = after_answer(500, "oops", ATTEMPTS_LIMIT, NOW)
    assert isinstance(last, Fail)
    assert last.kind is Kind.MODEL_SERVER_ERROR


def test_the_kinds_of_failures_are_those_that_are_stored() -> None:
    assert {kind.value for kind in Kind} == set(FailureKind.values)


def test_what_the_store_keeps_from_the_model_is_no_attempt_and_waited_for_ever_longer() -> None:
    waits = [after_store_away("Away.", NOW - timedelta(seconds=age), NOW) for age in (0, 100, 100_000)]
    assert [(step.due_at - NOW).total_seconds() for step in waits] == [1, 10, WAIT_LAST_SECONDS]
    assert not any(step.is_attempt for step in waits)


def test_pauses_of_the_store_double_and_are_capped() -> None:
    assert [store_pause(tries) for tries in (1, 2, 3, 7, 1000)] == [1, 2, 4, WAIT_LAST_SECONDS, WAIT_LAST_SECONDS]


def test_an_answer_is_offered_while_its_request_may_wait_and_a_while_in_any_case() -> None:
    soon, late = NOW + timedelta(seconds=1), NOW + timedelta(hours=6)
    assert storing_until(late, NOW) == late
    assert storing_until(soon, NOW) == NOW + timedelta(seconds=STORING_SECONDS)


@given(st.lists(st.integers(0, 9), max_size=200), st.integers(1, 600))
def test_there_is_room_for_a_newcomer_whatever_the_others_hold(turns: list[int], limit: int) -> None:
    """Endpoints that never let go of anything leave a place for one that comes later, as long as there is one."""
    held: dict[int, int] = {}
    for endpoint in turns:
        free = limit - sum(held.values())
        room = room_for(held.get(endpoint, 0), free)
        assert 0 <= room <= free
        is_new = not held.get(endpoint)
        assert room > 0 or not is_new or free == 0
        held[endpoint] = held.get(endpoint, 0) + room
    assert sum(held.values()) <= limit


def test_one_endpoint_alone_gets_half_and_two_get_a_third_each() -> None:
    assert room_for(0, 512) == 256
    assert room_for(256, 256) == 0
    first = second = 0
    for _ in range(64):
        first += min(room_for(first, 512 - first - second), 32)
        second += min(room_for(second, 512 - first - second), 32)
    assert (first, second) == (pytest.approx(171, abs=8), pytest.approx(171, abs=8))
