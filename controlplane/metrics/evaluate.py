"""What an alarm says: a pure function of its rule, its data points and what it said before.

                      M of the N points breach
              OK ---------------------------------> ALARM
               ^ <--------------------------------- |  ^
               |          fewer than M do           |  |
               |                                    v  |
               +-------- INSUFFICIENT_DATA <--------+--+
                 points again        none in range, and missing ones are `missing`

A few more points than N are looked at, so that one that is late does not change the state: where at least N of them are
there, the newest N decide. Where fewer are there, the missing ones count as the rule says:

    breaching, notBreaching   as such
    ignore                    the state stays, unless those that are there suffice for one
    missing                   as ignore; but all points breaching, with the oldest of them at least M periods old, is ALARM,
                              and none at all is INSUFFICIENT_DATA

Source: Amazon CloudWatch User Guide, "Configuring how CloudWatch alarms treat missing data", of which the tests have the
two tables.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

OK, ALARM, INSUFFICIENT_DATA = "OK", "ALARM", "INSUFFICIENT_DATA"
MISSING, IGNORE, BREACHING, NOT_BREACHING = "missing", "ignore", "breaching", "notBreaching"
TREATMENTS = (MISSING, IGNORE, BREACHING, NOT_BREACHING)

SPARE_POINTS = 2
"""Points beyond N that are looked at."""

STEP_SECONDS = 10
"""Windows end on multiples of this, the width of a bucket."""

SETTLE_SECONDS = 2
"""How long after its end a bucket is taken for complete: gateways write every second. Clocks must agree within one."""

LONGEST_PAUSE_SECONDS = 60

_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
COMPARISONS = frozenset(_COMPARISONS)

Points = Sequence[float | None]
"""Oldest first, None = missing."""


@dataclass(frozen=True)
class Rule:
    """When an alarm goes off: `needed` (M) of `periods` (N) points of `period_seconds` each beyond the threshold."""

    comparison: str
    threshold: float
    period_seconds: int
    periods: int
    needed: int
    missing: str

    @property
    def range_periods(self) -> int:
        """How many points are looked at."""
        return self.periods + SPARE_POINTS

    def breaches(self, value: float) -> bool:
        """Whether a point is beyond the threshold."""
        return _COMPARISONS[self.comparison][0](value, self.threshold)


@dataclass(frozen=True)
class Verdict:
    """What the alarm says now, and why in one sentence; `points` are those that decided, oldest first."""

    state: str
    reason: str
    points: tuple[float | None, ...]


def evaluate(rule: Rule, points: Points, state: str) -> Verdict:
    """The alarm's state by its newest `rule.range_periods` points; `state` is what it says so far."""
    shown = tuple(points[-rule.range_periods :])
    there = [point for point in shown if point is not None]
    if len(there) >= rule.periods:
        shown = tuple(there[-rule.periods :])
        found = ALARM if _breaching(rule, shown) >= rule.needed else OK
    else:
        found = _with_gaps(rule, shown, state)
    return Verdict(found, _reason(rule, shown, found), shown)


def window_ends(rule: Rule, now_seconds: float) -> list[int]:
    """The ends of the windows to look at, oldest first, in seconds since 1970; each begins a period before its end.

    They slide: the newest ends with the last complete bucket, not with the minute, so an alarm is seconds late at most.
    """
    newest = int(now_seconds - SETTLE_SECONDS) // STEP_SECONDS * STEP_SECONDS
    return [newest - place * rule.period_seconds for place in reversed(range(rule.range_periods))]


def next_look(rule: Rule, now_seconds: float) -> float:
    """When to evaluate again, in seconds since 1970: each time a bucket is complete; for long periods less often."""
    pause = min(max(rule.period_seconds // 6 // STEP_SECONDS * STEP_SECONDS, STEP_SECONDS), LONGEST_PAUSE_SECONDS)
    return (int(now_seconds - SETTLE_SECONDS) // STEP_SECONDS * STEP_SECONDS) + pause + SETTLE_SECONDS


def _breaching(rule: Rule, points: Points) -> int:
    return sum(point is not None and rule.breaches(point) for point in points)


def _with_gaps(rule: Rule, points: Points, state: str) -> str:
    """The state where fewer points are there than are to be evaluated."""
    there = [point for point in points if point is not None]
    breaching = _breaching(rule, there)
    if rule.missing == BREACHING:
        breaching += rule.periods - len(there)
    if breaching >= rule.needed:
        return ALARM
    if rule.missing in (BREACHING, NOT_BREACHING) or breaching < len(there):
        return OK
    return _of_gaps_alone(rule, points, state)


def _of_gaps_alone(rule: Rule, points: Points, state: str) -> str:
    """The state where each point breaches or is missing, and too few breach."""
    if rule.missing == IGNORE:
        return state
    age = next((len(points) - place for place, point in enumerate(points) if point is not None), None)
    if age is None:
        return INSUFFICIENT_DATA
    return ALARM if age >= rule.needed else state


def _reason(rule: Rule, points: Points, state: str) -> str:
    """Why, in the form that those who read alarms know."""
    there = [point for point in points if point is not None]
    gaps = max(rule.periods - len(there), 0)
    if state == INSUFFICIENT_DATA:
        return f"Insufficient Data: {_datapoints(gaps)} {_were(gaps)} unknown."
    hits = _breaching(rule, there)
    counted = hits if state == ALARM else len(there) - hits
    negation = "" if state == ALARM else "not "
    values = ", ".join(f"{point:.6g}" for point in there[-5:])
    seen = f"{counted} out of the last {_datapoints(rule.periods)} [{values}]" if there else "no datapoints"
    beyond = f"{_were(counted)} {negation}{_COMPARISONS[rule.comparison][1]} the threshold ({rule.threshold:.6g})"
    unknown = f"; {_datapoints(gaps)} {_were(gaps)} missing and treated as [{rule.missing}]" if gaps else ""
    return f"Threshold Crossed: {seen} {beyond} (minimum {_datapoints(rule.needed)} for an alarm){unknown}."


def _datapoints(count: int) -> str:
    return f"{count} datapoint{'' if count == 1 else 's'}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
