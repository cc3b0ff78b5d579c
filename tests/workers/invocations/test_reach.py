"""Instances that could not be reached: for how long others are asked first."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from workers.invocations.reach import FIRST_SECONDS, LONGEST_SECONDS, Reach, shun_seconds

HERE, THERE = UUID(int=1), UUID(int=2)


def test_the_first_failure_shuns_an_instance_for_a_while_and_no_other() -> None:
    reach = Reach()
    assert reach.shunned(0.0) == []
    assert reach.failed(HERE, 0.0) == FIRST_SECONDS
    assert reach.shunned(FIRST_SECONDS - 0.1) == [HERE]
    assert reach.shunned(FIRST_SECONDS) == []


def test_who_fails_again_after_its_time_is_shunned_for_twice_as_long_and_up_to_a_minute() -> None:
    reach, now, found = Reach(), 0.0, []
    for _ in range(6):
        found.append(reach.failed(HERE, now))
        now += found[-1]
    assert found == [5, 10, 20, 40, 60, 60]


def test_calls_that_were_under_way_do_not_make_it_longer() -> None:
    reach = Reach()
    reach.failed(HERE, 0.0)
    assert reach.failed(HERE, 2.0) == 3.0
    assert reach.shunned(5.0) == []
    assert reach.failed(HERE, 6.0) == 10.0


def test_a_success_ends_it_and_is_the_end_of_the_story() -> None:
    reach = Reach()
    reach.failed(HERE, 0.0)
    reach.failed(HERE, 6.0)
    reach.succeeded(HERE)
    reach.succeeded(THERE)
    assert reach.shunned(6.0) == []
    assert reach.failed(HERE, 7.0) == FIRST_SECONDS


def test_those_that_failed_last_come_last() -> None:
    reach = Reach()
    for now, each in enumerate((HERE, THERE)):
        reach.failed(each, float(now))
    assert reach.shunned(2.0) == [HERE, THERE]
    reach.failed(HERE, 3.0)
    assert reach.shunned(3.0) == [THERE, HERE]


def test_instances_that_are_gone_are_forgotten() -> None:
    reach = Reach()
    for number in range(100):
        reach.failed(UUID(int=number), 0.0)
    reach.failed(HERE, FIRST_SECONDS + LONGEST_SECONDS)
    assert len(reach._shunned) == 1
    assert reach.failed(HERE, FIRST_SECONDS + LONGEST_SECONDS) == FIRST_SECONDS


EVENTS = st.lists(st.tuples(st.sampled_from([HERE, THERE]), st.booleans(), st.floats(0, 100)), max_size=40)


@given(EVENTS)
def test_whatever_happens_who_failed_just_now_is_last_and_nobody_is_shunned_for_ever(
    events: list[tuple[UUID, bool, float]],
) -> None:
    reach, now = Reach(), 0.0
    for instance_id, has_failed, passed in events:
        now += passed
        if has_failed:
            assert 0 < reach.failed(instance_id, now) <= LONGEST_SECONDS
            assert reach.shunned(now)[-1] == instance_id
        else:
            reach.succeeded(instance_id)
            assert instance_id not in reach.shunned(now)
    assert reach.shunned(now + LONGEST_SECONDS) == []


@given(st.integers(1, 10_000))
def test_the_time_only_grows(times: int) -> None:
    assert FIRST_SECONDS <= shun_seconds(times) <= shun_seconds(times + 1) <= LONGEST_SECONDS
