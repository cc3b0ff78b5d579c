"""Alarms by their points: the guide's two tables, M of N, every comparison, and what holds for any points."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.metrics.evaluate import (
    ALARM,
    BREACHING,
    COMPARISONS,
    IGNORE,
    INSUFFICIENT_DATA,
    MISSING,
    NOT_BREACHING,
    OK,
    SETTLE_SECONDS,
    TREATMENTS,
    Rule,
    evaluate,
    next_look,
    window_ends,
)

RULE = Rule("GreaterThanThreshold", 10.0, 60, 3, 3, MISSING)
KEPT = "kept"
"""Stands for whatever the alarm said before."""


def points(drawn: str) -> list[float | None]:
    """`0` does not breach, `X` does, `-` is missing; oldest first."""
    return [{"0": 1.0, "X": 99.0, "-": None}[each] for each in drawn.replace(" ", "")]


@pytest.mark.parametrize(
    ("needed", "drawn", "states"),
    [
        # The columns: missing, ignore, breaching, notBreaching.
        (3, "0 - X - X", (OK, OK, OK, OK)),
        (3, "- - - - 0", (OK, OK, OK, OK)),
        (3, "- - - - -", (INSUFFICIENT_DATA, KEPT, ALARM, OK)),
        (3, "0 X X - X", (ALARM, ALARM, ALARM, ALARM)),
        (3, "- - X - -", (ALARM, KEPT, ALARM, OK)),
        (2, "0 - X - X", (ALARM, ALARM, ALARM, ALARM)),
        (2, "0 0 X 0 X", (ALARM, ALARM, ALARM, ALARM)),
        (2, "0 - X - -", (OK, OK, ALARM, OK)),
        (2, "- - - - 0", (OK, OK, ALARM, OK)),
        (2, "- - - X -", (ALARM, KEPT, ALARM, OK)),
        # One breach that may be the first of several, or of none: too early to tell.
        (3, "- - - - X", (KEPT, KEPT, ALARM, OK)),
    ],
)
def test_missing_points_count_as_the_guide_says(needed: int, drawn: str, states: tuple[str, ...]) -> None:
    for treatment, expected in zip((MISSING, IGNORE, BREACHING, NOT_BREACHING), states, strict=True):
        rule = replace(RULE, needed=needed, missing=treatment)
        for before in (OK, ALARM, INSUFFICIENT_DATA):
            found = evaluate(rule, points(drawn), before).state
            assert found == (before if expected == KEPT else expected), (treatment, before)


@pytest.mark.parametrize(
    ("comparison", "below", "at", "above"),
    [
        ("GreaterThanThreshold", OK, OK, ALARM),
        ("GreaterThanOrEqualToThreshold", OK, ALARM, ALARM),
        ("LessThanThreshold", ALARM, OK, OK),
        ("LessThanOrEqualToThreshold", ALARM, ALARM, OK),
    ],
)
def test_each_comparison_at_its_edge(comparison: str, below: str, at: str, above: str) -> None:
    rule = replace(RULE, comparison=comparison, periods=1, needed=1)
    assert [evaluate(rule, [value], OK).state for value in (9.9, 10.0, 10.1)] == [below, at, above]


def test_an_alarm_ends_when_fewer_than_m_of_the_newest_n_breach() -> None:
    rule = replace(RULE, periods=3, needed=2)
    assert evaluate(rule, points("0 0 0 X X"), OK).state == ALARM
    assert evaluate(rule, points("0 0 X X 0"), ALARM).state == ALARM
    assert evaluate(rule, points("0 X X 0 0"), ALARM).state == OK


def test_the_reason_says_how_many_of_how_many_crossed_what() -> None:
    crossed = evaluate(replace(RULE, needed=2), points("0 0 X 0 X"), OK).reason
    assert crossed == (
        "Threshold Crossed: 2 out of the last 3 datapoints [99, 1, 99] were greater than the threshold (10) "
        "(minimum 2 datapoints for an alarm)."
    )
    filled = evaluate(replace(RULE, missing=BREACHING), points("- - - - X"), OK).reason
    assert "1 out of the last 3 datapoints [99]" in filled
    assert "2 datapoints were missing and treated as [breaching]" in filled
    assert evaluate(RULE, points("-----"), OK).reason == "Insufficient Data: 3 datapoints were unknown."


def test_windows_end_with_the_last_complete_bucket_and_lie_a_period_apart() -> None:
    assert window_ends(RULE, 1000.0 + SETTLE_SECONDS) == [760, 820, 880, 940, 1000]
    assert window_ends(RULE, 1009.9 + SETTLE_SECONDS)[-1] == 1000
    assert window_ends(RULE, 1010.0 + SETTLE_SECONDS)[-1] == 1010


@given(st.floats(1e6, 4e9), st.integers(1, 1440))
def test_the_next_look_comes_when_another_bucket_is_complete(now: float, minutes: int) -> None:
    rule = replace(RULE, period_seconds=60 * minutes)
    after = next_look(rule, now)
    assert now < after <= now + 60
    assert window_ends(rule, after)[-1] > window_ends(rule, now)[-1]


RULES = st.builds(
    Rule,
    comparison=st.sampled_from(sorted(COMPARISONS)),
    threshold=st.floats(-1e9, 1e9),
    period_seconds=st.sampled_from([10, 30, 60, 300]),
    periods=st.integers(1, 8),
    needed=st.integers(1, 8),
    missing=st.sampled_from(TREATMENTS),
).map(lambda rule: replace(rule, needed=min(rule.needed, rule.periods)))
POINTS = st.lists(st.none() | st.floats(-1e9, 1e9), max_size=12)
STATES = st.sampled_from([OK, ALARM, INSUFFICIENT_DATA])


@given(RULES, POINTS, STATES)
def test_what_holds_for_any_points(rule: Rule, given_points: list[float | None], state: str) -> None:
    verdict = evaluate(rule, given_points, state)
    seen = given_points[-rule.range_periods :]
    there = [point for point in seen if point is not None]
    newest = there[-rule.periods :]
    breaching = sum(rule.breaches(point) for point in newest)
    if breaching >= rule.needed:
        assert verdict.state == ALARM
    if len(there) >= rule.periods and breaching < rule.needed:
        assert verdict.state == OK
    if not any(rule.breaches(point) for point in there) and rule.missing != BREACHING:
        assert verdict.state != ALARM or (state == ALARM and not there)
    if verdict.state == INSUFFICIENT_DATA:
        assert not there or state == INSUFFICIENT_DATA
    assert verdict.reason.startswith(("Threshold Crossed: ", "Insufficient Data: "))
    assert 0 < len(verdict.reason) <= 1023
    assert evaluate(rule, given_points, verdict.state).state == verdict.state, "looking twice changes nothing"


@given(RULES, POINTS, STATES)
def test_points_older_than_the_range_play_no_part(rule: Rule, given_points: list[float | None], state: str) -> None:
    padded = [None] * rule.range_periods + given_points
    older = [rule.threshold] * 50 + padded
    assert evaluate(rule, older, state) == evaluate(rule, padded, state)
