"""What one variant's calls came to in ten seconds: numbers that cost little to add to, and add up when read.

Names, units and meanings: contract, data plane 5.2.
"""

from math import ceil, inf, log

from controlplane.metrics.statistics import LOG_GAMMA, OFFSET, Aggregate, bin_key, merged
from controlplane.routing.table import VariantRoute

COUNT, MICROSECONDS = "None", "Microseconds"
"""Units, as the mirrored service gives them."""

Metrics = dict[str, dict[str, Aggregate]]
"""Metric name -> unit -> what was counted."""


class Spread:
    """Values of one metric, added up one by one; see `statistics.Aggregate`. How many there are, the bins know."""

    __slots__ = ("bins", "high", "low", "total")

    def __init__(self) -> None:
        self.total, self.low, self.high = 0.0, inf, -inf
        self.bins: dict[int, float] = {}

    def add(self, value: float) -> None:
        """Count one value, 0 or more. Every call comes here twice, hence no call of min, max or `bin_key`."""
        self.total += value
        if value < self.low:
            self.low = value
        if value > self.high:
            self.high = value
        key = ceil(log(value) * _BINS_PER_E) + OFFSET if value else 0
        self.bins[key] = self.bins.get(key, 0) + 1

    def aggregate(self) -> Aggregate:
        """What was counted so far, at least one value."""
        return Aggregate(sum(self.bins.values()), self.total, self.low, self.high, dict(self.bins))


_BINS_PER_E = 1 / LOG_GAMMA


class Tally:
    """What one variant's calls came to in one bucket; `written` is how many of them are in the database.

    `share` is what one call adds to InvocationsPerInstance, worked out when the variant's instances change.
    """

    __slots__ = (
        "calls",
        "errors_4xx",
        "errors_5xx",
        "is_async",
        "model_errors",
        "model_latency",
        "overhead",
        "share",
        "shares",
        "variant",
        "written",
    )

    def __init__(self) -> None:
        self.calls = self.errors_4xx = self.errors_5xx = self.model_errors = self.written = 0
        self.variant: VariantRoute | None = None
        self.is_async = False
        self.share, self.shares = 0.0, dict[float, int]()
        self.model_latency, self.overhead = Spread(), Spread()

    @property
    def is_changed(self) -> bool:
        """Whether something was counted since it was last written."""
        return self.calls > self.written

    def add(self, variant: VariantRoute, *, is_async: bool) -> None:
        """Count one call."""
        self.calls += 1
        self.is_async = is_async
        if variant is not self.variant:
            self.variant, self.share = variant, 1 / (len(variant.open_targets) or 1)
        self.shares[self.share] = self.shares.get(self.share, 0) + 1

    def fail(self, status: int, *, is_model_error: bool) -> None:
        """Of the call that was just counted: it failed, the model answering `status` (0 = not at all)."""
        if 400 <= status < 500:
            self.errors_4xx += 1
        else:
            self.errors_5xx += 1
        self.model_errors += is_model_error

    def metrics(self) -> Metrics:
        """Metric name -> unit -> aggregate."""
        calls = self.calls
        found: Metrics = {
            "Invocation4XXErrors": {COUNT: _flags(calls, self.errors_4xx)},
            "Invocation5XXErrors": {COUNT: _flags(calls, self.errors_5xx)},
            "InvocationModelErrors": {COUNT: _flags(calls, self.model_errors)},
        }
        if self.model_latency.bins:
            found["ModelLatency"] = {MICROSECONDS: self.model_latency.aggregate()}
        return found if self.is_async else {**found, **self._synchronous()}

    def _synchronous(self) -> Metrics:
        """What is counted of calls whose callers wait."""
        found: Metrics = {
            "Invocations": {COUNT: Aggregate(self.calls, self.calls, 1, 1)},
            "InvocationsPerInstance": {COUNT: Aggregate.of(self.shares.items())},
        }
        if self.overhead.bins:
            found["OverheadLatency"] = {MICROSECONDS: self.overhead.aggregate()}
        return found


_ONE = bin_key(1)


def _flags(calls: int, hits: int) -> Aggregate:
    """`hits` ones among `calls` zeros and ones."""
    bins = {key: count for key, count in ((0, calls - hits), (_ONE, hits)) if count}
    return Aggregate(calls, hits, 1 if hits == calls else 0, 1 if hits else 0, bins)


def together(parts: list[Metrics]) -> Metrics:
    """The metrics of several tallies, at least one, as those of one."""
    if len(parts) == 1:
        return parts[0]
    gathered: dict[str, dict[str, list[Aggregate]]] = {}
    for part in parts:
        for name, units in part.items():
            for unit, aggregate in units.items():
                gathered.setdefault(name, {}).setdefault(unit, []).append(aggregate)
    return {
        name: {unit: found for unit, each in units.items() if (found := merged(each)) is not None}
        for name, units in gathered.items()
    }
