"""The rounds of the metrics' thread: each chore at its time, and none that takes the others with it."""

from collections.abc import Callable
from datetime import datetime

import pytest
from django.db import OperationalError

from tests.fakes.clock import FakeClock
from workers.metrics.tender import Chore, Tender


def noting(done: list[str], name: str) -> Callable[[datetime], int]:
    """A chore that notes that it was done."""

    def run(now: datetime) -> int:
        done.append(name)
        return 0

    return run


def test_each_chore_is_done_when_its_time_has_come(fake_clock: FakeClock) -> None:
    done: list[str] = []
    tender = Tender([Chore("often", 2.0, noting(done, "often")), Chore("seldom", 10.0, noting(done, "seldom"))])
    for _ in range(6):
        tender.run_round()
        fake_clock.step(2)
    assert (done.count("often"), done.count("seldom")) == (6, 2)


@pytest.mark.parametrize("fault", [OperationalError("away"), ZeroDivisionError("a bug")])
def test_a_chore_that_fails_is_told_of_and_holds_up_no_other(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    def fail(now: datetime) -> int:
        raise fault

    done: list[str] = []
    Tender([Chore("first", 2.0, fail), Chore("second", 2.0, noting(done, "second"))]).run_round()
    assert done == ["second"]
    assert "first" in caplog.text


def test_while_a_round_runs_no_other_starts(fake_clock: FakeClock) -> None:
    done: list[str] = []

    def eager(now: datetime) -> int:
        fake_clock.step(60)
        tender.start_round()
        return 0

    tender = Tender([Chore("eager", 2.0, eager), Chore("other", 2.0, noting(done, "other"))])
    tender.start_round()
    tender.stop()
    assert done == ["other"]
