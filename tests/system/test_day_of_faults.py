"""The short day of faults, on a Headrace of its own; `python -m tests.faults.day` is the long one."""

from collections.abc import Iterator

import pytest

from controlplane.gateway.probes import TABLE_AGE_SECONDS
from tests.faults.day import ENVIRONMENT, SHORT, Day, report
from tests.system.stack import Stack, running


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    with running(**ENVIRONMENT) as started:
        yield started


@pytest.mark.timeout(600)
def test_only_what_a_failing_instance_had_been_sent_is_lost_and_nothing_is_sent_twice(own_stack: Stack) -> None:
    outcome = Day(own_stack, SHORT).live()
    report(outcome)
    assert outcome.needlessly_lost == []
    assert outcome.doubled == []
    assert any(call.lost and call.has_begun for call in outcome.calls)  # a stream was cut: the faults were real
    assert outcome.told_age >= TABLE_AGE_SECONDS  # served all the while, from a table as old as that
