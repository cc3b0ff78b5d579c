"""Bounds that a report must keep, so that a CI run can fail on a scenario: `availability=0.999`, `chat.failed=0`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite, nan

from workers.simulator.report import Figures, Report
from workers.simulator.scenario import TOTAL

METRICS = tuple(each.name for each in fields(Figures) if not each.name.endswith("_by_type"))


class BoundError(ValueError):
    """A bound cannot be understood; the message says what it should look like."""


@dataclass(frozen=True)
class Bound:
    """`metric` of `group` may not be below (or, `is_upper`, above) `limit`."""

    group: str
    metric: str
    limit: float
    is_upper: bool


def read_bounds(below: Sequence[str], above: Sequence[str], groups: Sequence[str]) -> list[Bound]:
    """Lower and upper bounds: `METRIC=NUMBER` for the total, `GROUP.METRIC=NUMBER` for one group; raises BoundError."""
    found = [_read(text, is_upper=False) for text in below] + [_read(text, is_upper=True) for text in above]
    for bound in found:
        if bound.group not in (TOTAL, *groups):
            raise BoundError(f"There is no group {bound.group!r}; there are {', '.join((*groups, TOTAL))}.")
    return found


def misses(found: Report, bounds: Sequence[Bound]) -> list[str]:
    """One sentence for each bound that the report does not keep."""
    return [sentence for bound in bounds if (sentence := _miss(found, bound))]


def _read(text: str, *, is_upper: bool) -> Bound:
    name, _, number = text.partition("=")
    group, _, metric = name.rpartition(".")
    try:
        limit = float(number)
    except ValueError:
        limit = nan
    if metric.strip() not in METRICS or not isfinite(limit):
        raise BoundError(
            f"{text!r} is no bound: write METRIC=NUMBER or GROUP.METRIC=NUMBER; metrics: {', '.join(METRICS)}."
        )
    return Bound(group.strip() or TOTAL, metric.strip(), limit, is_upper)


def _miss(found: Report, bound: Bound) -> str:
    value = getattr(found.groups[bound.group], bound.metric)
    name = f"{bound.metric} of {bound.group}"
    if value is None:
        return f"{name} has no value: nothing of the kind happened"
    if bound.is_upper and value > bound.limit:
        return f"{name} is {value:g}, above {bound.limit:g}"
    if not bound.is_upper and value < bound.limit:
        return f"{name} is {value:g}, below {bound.limit:g}"
    return ""
