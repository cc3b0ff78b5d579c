"""The last hour of an endpoint, minute by minute, out of the metrics store: calls, errors, latency, and what waits."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.endpoints.models import Endpoint
from controlplane.metrics.read import Found, Wanted, read, windows
from controlplane.metrics.series import OWN_NAMESPACE, MetricSetKey
from controlplane.metrics.statistics import Aggregate, statistic

MINUTES = 60
SECONDS = 60
MICROSECONDS_PER_MILLISECOND = 1000.0

CLIENT_ERRORS, SERVER_ERRORS, LATENCY = "Invocation4XXErrors", "Invocation5XXErrors", "ModelLatency"
BACKLOG = "ApproximateBacklogSize"

Chart = dict[str, Any]
"""What `headrace.chart` in console.js draws."""


def charts(endpoint: Endpoint, variants: Sequence[str], now: datetime) -> dict[str, Chart]:
    """The charts that there is something to draw for, by name: `calls`, `latency`, `backlog`. One query."""
    end = int(now.timestamp() // SECONDS + 1) * SECONDS
    names = (CLIENT_ERRORS, SERVER_ERRORS, LATENCY)
    wanted = [_wanted(endpoint, name, end, VariantName=variant) for variant in variants for name in names]
    found = read([*wanted, _wanted(endpoint, BACKLOG, end)])
    by_variant = {variant: found[3 * place : 3 * place + 3] for place, variant in enumerate(variants)}
    drawn = {"calls": _calls(by_variant, end), "latency": _latency(by_variant, end)}
    if endpoint.is_async:
        drawn["backlog"] = _chart([_line("waiting or running", found[-1], end, _maximum)], "requests", end)
    return {name: chart for name, chart in drawn.items() if _has_values(chart)}


def _wanted(endpoint: Endpoint, name: str, end: int, **dimensions: str) -> Wanted:
    key = MetricSetKey(endpoint.account_id, OWN_NAMESPACE, {"EndpointName": endpoint.name, **dimensions})
    until = datetime.fromtimestamp(end, UTC)
    return Wanted(key.set_id, name, None, until - timedelta(seconds=MINUTES * SECONDS), until, name == LATENCY)


def _calls(found: dict[str, list[Found]], end: int) -> Chart:
    """Every call is a sample of the errors' metrics, asynchronous ones too."""
    lines = []
    for variant, (client, server, _) in found.items():
        suffix = f" · {variant}" if len(found) > 1 else ""
        lines.append(_line(f"calls{suffix}", client, end, _count, empty=0))
        errors = [a + b for a, b in zip(_values(client, end, _sum, 0), _values(server, end, _sum, 0), strict=True)]
        if any(errors):
            lines.append({"name": f"errors{suffix}", "values": errors})
    return _chart(lines, "a minute", end)


def _latency(found: dict[str, list[Found]], end: int) -> Chart:
    lines = []
    for variant, (_, _, latency) in found.items():
        suffix = f" · {variant}" if len(found) > 1 else ""
        lines += [_line(f"{name}{suffix}", latency, end, _milliseconds(name)) for name in ("p50", "p90", "p99")]
    return {**_chart(lines, "ms", end), "precision": 1, "points": 2}


def _chart(lines: Iterable[dict[str, Any]], unit: str, end: int) -> Chart:
    starts = [end - SECONDS * (MINUTES - place) for place in range(MINUTES)]
    return {"labels": [f"{datetime.fromtimestamp(at, UTC):%H:%M}" for at in starts], "unit": unit, "lines": list(lines)}


def _line(
    name: str, found: Found, end: int, value: Callable[[Aggregate], float | None], empty: float | None = None
) -> dict[str, Any]:
    return {"name": name, "values": _values(found, end, value, empty)}


def _values(found: Found, end: int, value: Callable[[Aggregate], float | None], empty: Any) -> list[Any]:
    return [empty if part is None else value(part) for part in windows(found.buckets, end, SECONDS, MINUTES)]


def _has_values(chart: Chart) -> bool:
    return any(value for line in chart["lines"] for value in line["values"])


def _count(aggregate: Aggregate) -> float:
    return aggregate.count


def _sum(aggregate: Aggregate) -> float:
    return aggregate.total


def _maximum(aggregate: Aggregate) -> float | None:
    return statistic(aggregate, "Maximum")


def _milliseconds(percentile: str) -> Callable[[Aggregate], float | None]:
    def value(aggregate: Aggregate) -> float | None:
        found = statistic(aggregate, percentile)
        return None if found is None else round(found / MICROSECONDS_PER_MILLISECOND, 2)

    return value
