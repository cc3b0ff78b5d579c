"""Whether an instance is given calls: ejection of those that fail, and a slow start for those that are new. Pure.

                 FAILURES_LIMIT failures in a row
        in  ------------------------------------------>  out for 10 s, 20 s, 40 s ... at most 5 min
         ^                                                 |
         |       the time is over: one more failure        |
         +-------- ejects it again, a success does not ----+

A failure is a connection that cannot be made, an answer that is none, or a 5xx. Times are seconds of a monotonic clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import TypeVar

FAILURES_LIMIT = 5
FIRST_OUT_SECONDS = 10.0
LONGEST_OUT_SECONDS = 300.0
LEAST_IN_SHARE = 0.5
"""So many of a variant's instances stay in, however badly they do, and never fewer than one: when most of them fail the
cause is not the instance, and whoever is left must not be buried."""

FIRST_SHARE = 0.1
"""Of an instance's weight when its slow start begins."""

T = TypeVar("T")


@dataclass(frozen=True)
class Health:
    """How an instance has done lately; `out_until` is the end of its last ejection, `ejections` how many in a row."""

    failures: int = 0
    ejections: int = 0
    out_until: float = -inf

    def is_out(self, now: float) -> bool:
        return now < self.out_until

    def failed(self, now: float) -> "Health":
        """After one more failure; those of calls that were under way when it was ejected change nothing."""
        if self.is_out(now):
            return self
        if self.failures + 1 < FAILURES_LIMIT:
            return Health(self.failures + 1, self.ejections, self.out_until)
        return Health(FAILURES_LIMIT - 1, self.ejections + 1, now + out_seconds(self.ejections + 1))

    def succeeded(self, now: float) -> "Health":
        """After an answer. It ends an ejection; how many there were is forgotten once it did well for as long again."""
        if self.is_out(now):
            return Health(0, self.ejections, now)
        did_well = now - self.out_until >= out_seconds(self.ejections)
        return Health(0, 0 if did_well else self.ejections, self.out_until)


def out_seconds(ejections: int) -> float:
    """How long the ejection of this number (from 1) lasts."""
    return float(min(FIRST_OUT_SECONDS * 2 ** min(max(ejections - 1, 0), 16), LONGEST_OUT_SECONDS))


def let_in(instances: Sequence[T], health_of: Callable[[T], Health], now: float) -> list[T]:
    """The instances that take calls, in their order: those that are not out, and as many more as must stay in, the ones
    whose ejections end first. `instances` is not empty."""
    kept = [each for each in instances if not health_of(each).is_out(now)]
    missing = max(1, ceil(len(instances) * LEAST_IN_SHARE)) - len(kept)
    if missing <= 0:
        return kept
    out = sorted((each for each in instances if health_of(each).is_out(now)), key=lambda each: health_of(each).out_until)
    chosen = [*kept, *out[:missing]]
    return [each for each in instances if each in chosen]


def ramp(age_seconds: float, over_seconds: float) -> float:
    """What part of its weight an instance of this age has: from a tenth to the whole, in a straight line."""
    if age_seconds >= over_seconds:
        return 1.0
    return FIRST_SHARE + (1 - FIRST_SHARE) * max(age_seconds, 0.0) / over_seconds
