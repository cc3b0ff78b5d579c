"""The API's operations on metrics: data in, statistics out."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.core.errors import InvalidNextToken, InvalidParameterCombination, InvalidParameterValue
from controlplane.metrics import paging, read, rules, services
from controlplane.metrics.models import MetricSet
from controlplane.metrics.series import MetricSetKey
from controlplane.metrics.statistics import SIMPLE_STATISTICS, Aggregate, statistic
from controlplane.wire.registry import Context, operation
from controlplane.wire.services import CLOUDWATCH

Params = Mapping[str, Any]
Answer = dict[str, Any]

SETS_PAGE = 100
RECENT = timedelta(hours=3)


@operation("PutMetricData", CLOUDWATCH)
def put_metric_data(context: Context, params: Params) -> Answer:
    data = params.get("MetricData", [])
    services.put_data(context.account_id, params["Namespace"], data, source=context.request_id[:64], now=context.now)
    return {}


@operation("ListMetrics", CLOUDWATCH)
def list_metrics(context: Context, params: Params) -> Answer:
    """The metrics of a page of metric sets; how many metrics that is depends on the sets."""
    if params.get("OwningAccount", context.account_id) != context.account_id or params.get("IncludeLinkedAccounts"):
        raise InvalidParameterValue("Headrace has no linked accounts.")
    rows = MetricSet.objects.filter(account_id=context.account_id)
    if "Namespace" in params:
        rows = rows.filter(namespace=params["Namespace"])
    if "MetricName" in params:
        rows = rows.filter(names__contains=[params["MetricName"]])
    if "RecentlyActive" in params:
        rows = rows.filter(seen_at__gte=context.now - RECENT)
    for each in params.get("Dimensions", []):
        has = {"has_key": each["Name"]} if "Value" not in each else {"contains": {each["Name"]: each["Value"]}}
        rows = rows.filter(**{f"dimensions__{lookup}": value for lookup, value in has.items()})
    page = paging.page(rows, params, column="id", limit=SETS_PAGE)
    metrics = [metric for row in page.rows for metric in _metrics(row, params.get("MetricName"))]
    return {"Metrics": metrics, "NextToken": page.next_token}


def _metrics(row: MetricSet, wanted: str | None) -> list[Answer]:
    dimensions = [{"Name": name, "Value": value} for name, value in sorted(row.dimensions.items())]
    names = row.names if wanted is None else [wanted]
    return [{"Namespace": row.namespace, "MetricName": name, "Dimensions": dimensions} for name in names]


@operation("GetMetricStatistics", CLOUDWATCH)
def get_metric_statistics(context: Context, params: Params) -> Answer:
    names = [*params.get("Statistics", []), *params.get("ExtendedStatistics", [])]
    rules.check_statistics(names)
    rules.check_stretch(params["StartTime"], params["EndTime"])
    rules.check_period(params["Period"])
    stretch = _Stretch(params["StartTime"], params["EndTime"], params["Period"])
    if stretch.count > rules.MOST_DATAPOINTS:
        raise InvalidParameterCombination(
            f"The request would give {stretch.count} datapoints; {rules.MOST_DATAPOINTS} are the most. Ask for a longer "
            "Period or a shorter time."
        )
    (found,) = read.read([_wanted(context, params, params.get("Unit"), stretch, names)])
    unit = next(iter(found.units)) if len(found.units) == 1 else None
    points = [_datapoint(moment, aggregate, names, unit) for moment, aggregate in stretch.points(found)]
    return {"Label": params["MetricName"], "Datapoints": points}


def _datapoint(moment: datetime, aggregate: Aggregate, names: Sequence[str], unit: str | None) -> Answer:
    values = {name: statistic(aggregate, name) for name in names}
    percentiles = {name: value for name, value in values.items() if name not in SIMPLE_STATISTICS and value is not None}
    simple = {name: value for name, value in values.items() if name in SIMPLE_STATISTICS}
    return {"Timestamp": moment, **simple, "Unit": unit, "ExtendedStatistics": percentiles or None}


@operation("GetMetricData", CLOUDWATCH)
def get_metric_data(context: Context, params: Params) -> Answer:
    """All queries in one page: a request that would give more data points than a page may hold is refused."""
    if "NextToken" in params:
        raise InvalidNextToken("The NextToken continues no such listing: every answer is whole.")
    rules.check_stretch(params["StartTime"], params["EndTime"])
    queries = [query for query in params["MetricDataQueries"] if query.get("ReturnData", True)]
    stretches = [_checked(query, params) for query in queries]
    if sum(stretch.count for stretch in stretches) > rules.MOST_QUERIED:
        raise InvalidParameterCombination(f"The request would give more than {rules.MOST_QUERIED} datapoints.")
    wanted = [
        _wanted(context, stat["Metric"], stat.get("Unit"), stretch, [stat["Stat"]])
        for stat, stretch in zip([query["MetricStat"] for query in queries], stretches, strict=True)
    ]
    is_ascending = params.get("ScanBy") == "TimestampAscending"
    found = zip(queries, stretches, read.read(wanted), strict=True)
    return {"MetricDataResults": [_result(*each, is_ascending=is_ascending) for each in found]}


def _checked(query: Params, params: Params) -> "_Stretch":
    """The query's stretch of time, once its other members are known to be good."""
    if "MetricStat" not in query:
        raise InvalidParameterValue(f"The query {query['Id']!r} must have a MetricStat.")
    if not {"Namespace", "MetricName"} <= set(query["MetricStat"]["Metric"]):
        raise InvalidParameterValue(f"The metric of the query {query['Id']!r} must have Namespace and MetricName.")
    rules.check_statistics([query["MetricStat"]["Stat"]])
    rules.check_period(query["MetricStat"]["Period"])
    return _Stretch(params["StartTime"], params["EndTime"], query["MetricStat"]["Period"])


def _result(query: Params, stretch: "_Stretch", found: read.Found, *, is_ascending: bool) -> Answer:
    name = query["MetricStat"]["Stat"]
    points = [(moment, statistic(aggregate, name)) for moment, aggregate in stretch.points(found)]
    points = [point for point in points if point[1] is not None]
    points.sort(reverse=not is_ascending)
    return {
        "Id": query["Id"],
        "Label": query.get("Label", query["MetricStat"]["Metric"]["MetricName"]),
        "Timestamps": [moment for moment, _ in points],
        "Values": [value for _, value in points],
        "StatusCode": "Complete",
    }


def _wanted(context: Context, metric: Params, unit: str | None, stretch: "_Stretch", names: Sequence[str]) -> read.Wanted:
    """The metric over the stretch, with what the statistics `names` need."""
    key = MetricSetKey(context.account_id, metric["Namespace"], rules.dimensions_of(metric))
    has_bins = not set(names) <= set(SIMPLE_STATISTICS)
    return read.Wanted(key.set_id, metric["MetricName"], unit, _moment(stretch.start), _moment(stretch.end), has_bins)


class _Stretch:
    """Whole periods that cover a time; the first begins on a full minute, or a full period where that is shorter."""

    def __init__(self, since: datetime, until: datetime, period: int) -> None:
        step = min(period, 60)
        self.start = int(since.timestamp() // step) * step
        self.count = math.ceil((until.timestamp() - self.start) / period)
        self.end = self.start + self.count * period
        self._period = period

    def points(self, found: read.Found) -> list[tuple[datetime, Aggregate]]:
        """The periods in which something was counted, by their start."""
        counted = read.windows(found.buckets, self.end, self._period, self.count)
        return [
            (_moment(self.start + place * self._period), aggregate)
            for place, aggregate in enumerate(counted)
            if aggregate is not None
        ]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
