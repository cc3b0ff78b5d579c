"""When a dispatcher does what: everything in time, nothing all the time."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from workers.invocations.queue import LEASE_SECONDS
from workers.invocations.timetable import BEAT_SECONDS, RENEW_SECONDS, SCAN_SECONDS, Timetable

EIGHTHS = st.integers(1, 24).map(lambda eighths: eighths / 8)
"""Of a second: sums of them are exact."""

STEPS = st.lists(st.tuples(EIGHTHS, st.integers(0, 2)), min_size=1, max_size=60)


def test_at_first_everything_is_due() -> None:
    timetable = Timetable()
    assert timetable.is_scan_due(100.0)
    assert timetable.is_beat_due(100.0)
    assert timetable.is_renewal_due(running=1, now=100.0)


@given(STEPS)
def test_whoever_waits_as_told_scans_beats_and_renews_in_time_and_not_more_often(steps: list[tuple[float, int]]) -> None:
    """Each step is how late a round comes, and how many requests run by then."""
    timetable, now = Timetable(), 0.0
    last = {"scan": -inf, "beat": -inf, "renew": -inf}
    for late, running in steps:
        now += timetable.wait_seconds(claim_in=None, running=running, now=now) + (late if late > 1.5 else 0.0)
        due = {
            "scan": timetable.is_scan_due(now),
            "beat": timetable.is_beat_due(now),
            "renew": timetable.is_renewal_due(running=running, now=now),
        }
        for name, seconds in (("scan", SCAN_SECONDS), ("beat", BEAT_SECONDS), ("renew", RENEW_SECONDS)):
            if due[name]:
                assert now - last[name] >= seconds
                last[name] = now
            if not running and name == "renew":
                assert not due[name]
                last[name] = now  # of what begins now
        assert now - last["scan"] < SCAN_SECONDS
        assert now - last["renew"] < RENEW_SECONDS < LEASE_SECONDS / 3


def test_what_is_asked_for_is_due_at_once() -> None:
    timetable = Timetable()
    assert timetable.is_scan_due(10.0)
    assert timetable.is_renewal_due(running=1, now=10.0)
    assert timetable.wait_seconds(claim_in=None, running=1, now=10.0) == SCAN_SECONDS
    timetable.scan_now(10.1)
    assert timetable.wait_seconds(claim_in=None, running=1, now=10.1) == 0.0
    assert timetable.is_scan_due(10.1)
    timetable.renew_now(10.2)
    assert timetable.wait_seconds(claim_in=None, running=1, now=10.2) == 0.0
    assert timetable.is_renewal_due(running=1, now=10.2)


def test_what_is_to_be_claimed_shortens_the_wait_and_never_lengthens_it() -> None:
    timetable = Timetable()
    timetable.is_scan_due(0.0)
    waits = [timetable.wait_seconds(claim_in=claim_in, running=0, now=0.0) for claim_in in (None, 5.0, 0.02, 0.0)]
    assert waits == [SCAN_SECONDS, SCAN_SECONDS, 0.02, 0.0]
