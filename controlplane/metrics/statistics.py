"""How much: counts, sums, extremes and percentiles of values, in a form that adds up.

Percentiles come from a histogram with logarithmic bins, each GAMMA times as wide as the one before, so that an answer is
off by at most RELATIVE_ERROR (2 %) of the true value, and two histograms are merged by adding their bins (the idea of
DDSketch, Masson et al. 2019). A bin's key orders like its values: negative values have negative keys, zero has 0.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

RELATIVE_ERROR = 0.02
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
LOG_GAMMA = math.log(GAMMA)
OFFSET = 20_000
"""Makes the key of every positive double positive: the smallest has bin -18,600, the largest 17,800."""

SAMPLE_COUNT, AVERAGE, SUM, MINIMUM, MAXIMUM = "SampleCount", "Average", "Sum", "Minimum", "Maximum"
SIMPLE_STATISTICS = (SAMPLE_COUNT, AVERAGE, SUM, MINIMUM, MAXIMUM)
_PERCENTILE = re.compile(r"p(\d{1,3}(?:\.\d{1,10})?)", re.ASCII)

Bins = Mapping[int, float]


def bin_key(value: float) -> int:
    """The key of the bin that holds `value` (finite)."""
    if value == 0:
        return 0
    key = math.ceil(math.log(abs(value)) / LOG_GAMMA) + OFFSET
    return key if value > 0 else -key


def bin_value(key: int) -> float:
    """The value that stands for everything in a bin: off by RELATIVE_ERROR at most."""
    if key == 0:
        return 0.0
    exponent = (abs(key) - OFFSET) * LOG_GAMMA
    return math.copysign(min(2 * math.exp(min(exponent, 709.0)) / (1 + GAMMA), 1.7e308), key)


@dataclass(frozen=True)
class Aggregate:
    """Some values of one metric, added up. Without `bins` no percentiles can be told, unless all values are equal."""

    count: float
    total: float
    low: float
    high: float
    bins: Bins | None = field(default=None)

    @classmethod
    def of(cls, weighted: Iterable[tuple[float, float]]) -> "Aggregate":
        """The aggregate of (value, how often) pairs, at least one; each count is above 0."""
        pairs = list(weighted)
        bins: dict[int, float] = {}
        for value, count in pairs:
            key = bin_key(value)
            bins[key] = bins.get(key, 0) + count
        values = [value for value, _ in pairs]
        total = math.fsum(value * count for value, count in pairs)
        return cls(math.fsum(count for _, count in pairs), total, min(values), max(values), bins)

    @classmethod
    def decode(cls, document: list[Any]) -> "Aggregate":
        """The aggregate that `encode` made."""
        count, total, low, high, *rest = document
        return cls(count, total, low, high, {int(key): number for key, number in rest[0].items()} if rest else None)

    def encode(self) -> list[Any]:
        """As JSON: count, sum, minimum, maximum and, where known, the bins."""
        numbers = [self.count, self.total, self.low, self.high]
        return numbers if self.bins is None else [*numbers, {str(key): count for key, count in self.bins.items()}]

    @property
    def known_bins(self) -> Bins | None:
        """The bins, also where they follow from the extremes."""
        if self.bins is None and self.low == self.high:
            return {bin_key(self.low): self.count}
        return self.bins


def merged(parts: Iterable[Aggregate]) -> Aggregate | None:
    """All parts in one; None of none. Bins are lost when one part lacks them."""
    found = list(parts)
    if len(found) < 2:
        return found[0] if found else None
    return Aggregate(
        math.fsum(part.count for part in found),
        math.fsum(part.total for part in found),
        min(part.low for part in found),
        max(part.high for part in found),
        _added_up([part.known_bins for part in found]),
    )


def _added_up(histograms: list[Bins | None]) -> Bins | None:
    bins: dict[int, float] = {}
    for histogram in histograms:
        if histogram is None:
            return None
        for key, count in histogram.items():
            bins[key] = bins.get(key, 0) + count
    return bins


def is_statistic(name: str) -> bool:
    """Whether `statistic` can answer this name: a simple statistic, or a percentile `p0` to `p100`."""
    return name in SIMPLE_STATISTICS or percentile_of(name) is not None


def percentile_of(name: str) -> float | None:
    """99.9 of `p99.9`; None where the name is of another kind."""
    match = _PERCENTILE.fullmatch(name)
    number = float(match[1]) if match else -1.0
    return number if 0 <= number <= 100 else None


def statistic(aggregate: Aggregate, name: str) -> float | None:
    """The statistic `name`; None for a percentile that nobody can tell."""
    match name:
        case "SampleCount":
            return aggregate.count
        case "Sum":
            return aggregate.total
        case "Average":
            return min(max(aggregate.total / aggregate.count, aggregate.low), aggregate.high)
        case "Minimum":
            return aggregate.low
        case "Maximum":
            return aggregate.high
    percent = percentile_of(name)
    return None if percent is None else _percentile(aggregate, percent)


def _percentile(aggregate: Aggregate, percent: float) -> float | None:
    """The smallest value that at least `percent` % of all values do not exceed, as near as the bins tell."""
    bins = aggregate.known_bins
    if bins is None:
        return None
    rank, seen, found = aggregate.count * percent / 100, 0.0, aggregate.low
    for key in sorted(bins):
        seen += bins[key]
        found = bin_value(key)
        if seen >= rank * (1 - 1e-12):
            break
    return min(max(found, aggregate.low), aggregate.high)
