"""What alarms, data and queries must fulfil beyond their shapes. Pure; each check answers with sentences or raises."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.core.errors import InvalidParameterCombination, InvalidParameterValue, MissingParameter
from controlplane.metrics.evaluate import MISSING, TREATMENTS, Rule
from controlplane.metrics.series import BUCKET_SECONDS, OWN_PREFIX
from controlplane.metrics.statistics import is_statistic, percentile_of

Params = Mapping[str, Any]

SHORT_PERIODS = (10, 30)
LONGEST_RANGE_SECONDS = 86_400
"""EvaluationPeriods x Period."""

LONGEST_PERIOD_SECONDS = 30 * 86_400
LAST_YEAR = 9000
MOST_DATA = 1000
MOST_VALUES = 150
LARGEST_VALUE = 2.0**360
OLDEST = timedelta(days=14)
NEWEST = timedelta(hours=2)
MOST_DATAPOINTS = 1440
"""Of one GetMetricStatistics answer."""

MOST_QUERIED = 100_800
"""Of one GetMetricData answer."""

NEEDED = ("MetricName", "Namespace", "Period", "EvaluationPeriods", "Threshold", "ComparisonOperator")
"""Members of a PutMetricAlarm that the model lets be absent, but for two, and Headrace does not."""


def alarm_violations(params: Params) -> list[str]:
    """Everything that is wrong with a PutMetricAlarm request, in sentences."""
    absent = [name for name in NEEDED if name not in params]
    if absent:
        return [f"{', '.join(absent)} must be given: Headrace has alarms on one metric only, with a fixed threshold"]
    return list(_alarm_violations(params))


def _alarm_violations(params: Params) -> Iterator[str]:
    if ("Statistic" in params) == ("ExtendedStatistic" in params):
        yield "exactly one of Statistic and ExtendedStatistic is required"
    extended = params.get("ExtendedStatistic")
    if extended is not None and percentile_of(extended) is None:
        yield f"ExtendedStatistic {extended[:64]!r} is not supported by Headrace: only percentiles are, from p0 to p100"
    if params.get("EvaluateLowSampleCountPercentile", "evaluate") != "evaluate":
        yield "EvaluateLowSampleCountPercentile is supported by Headrace as 'evaluate' only"
    if params.get("TreatMissingData", MISSING) not in TREATMENTS:
        yield f"TreatMissingData must be one of {', '.join(TREATMENTS)}"
    if len(dimensions_of(params)) != len(params.get("Dimensions", [])):
        yield "Dimensions must have names that differ"
    yield from _range_violations(params["Period"], params["EvaluationPeriods"], params.get("DatapointsToAlarm", 1))


def _range_violations(period: int, periods: int, needed: int) -> Iterator[str]:
    if period not in SHORT_PERIODS and period % 60:
        yield "Period must be 10, 30 or a multiple of 60"
    if period * periods > LONGEST_RANGE_SECONDS:
        yield f"EvaluationPeriods times Period must be at most {LONGEST_RANGE_SECONDS} seconds"
    if needed > periods:
        yield "DatapointsToAlarm must be at most EvaluationPeriods"


def rule_of(request: Params) -> Rule:
    """The rule in an accepted PutMetricAlarm request."""
    return Rule(
        comparison=request["ComparisonOperator"],
        threshold=request["Threshold"],
        period_seconds=request["Period"],
        periods=request["EvaluationPeriods"],
        needed=request.get("DatapointsToAlarm", request["EvaluationPeriods"]),
        missing=request.get("TreatMissingData", MISSING),
    )


def dimensions_of(params: Params) -> dict[str, str]:
    """Dimensions as a mapping."""
    return {each["Name"]: each["Value"] for each in params.get("Dimensions", [])}


def check_namespace(namespace: str) -> None:
    """Refuse a namespace that is not the caller's to write."""
    if namespace.startswith(OWN_PREFIX):
        raise InvalidParameterValue(f"The value {OWN_PREFIX} for parameter Namespace is invalid.")


def check_data(data: Sequence[Params], now: datetime) -> None:
    """Refuse data that are not one value, some values or a set of statistics each, or of a time too far away."""
    if not data:
        raise MissingParameter("The parameter MetricData is required.")
    if len(data) > MOST_DATA:
        raise InvalidParameterValue(f"The collection MetricData must not have a size greater than {MOST_DATA}.")
    for place, datum in enumerate(data, start=1):
        _check_datum(datum, f"MetricData.member.{place}", now)


def _check_datum(datum: Params, where: str, now: datetime) -> None:
    given = [name for name in ("Value", "Values", "StatisticValues") if name in datum]
    if len(given) != 1:
        raise InvalidParameterCombination(f"{where} must have exactly one of Value, Values and StatisticValues.")
    if len(dimensions_of(datum)) != len(datum.get("Dimensions", [])):
        raise InvalidParameterValue(f"{where}.Dimensions must have names that differ.")
    if datum.get("StorageResolution", 60) not in (1, 60):
        raise InvalidParameterValue(f"{where}.StorageResolution must be 1 or 60.")
    if not now - OLDEST <= datum.get("Timestamp", now) <= now + NEWEST:
        raise InvalidParameterValue(f"{where}.Timestamp must be within the last two weeks or the next two hours.")
    _check_values(datum, where)


def _check_values(datum: Params, where: str) -> None:
    values, statistics = datum.get("Values", []), datum.get("StatisticValues")
    counts = datum.get("Counts", [1] * len(values))
    if "Values" in datum and not 0 < len(values) <= MOST_VALUES:
        raise InvalidParameterValue(f"{where}.Values must have 1 to {MOST_VALUES} elements.")
    if len(counts) != len(values) or any(count <= 0 for count in counts):
        raise InvalidParameterValue(f"{where}.Counts must have a positive element for each of Values.")
    numbers = [*values, datum.get("Value", 0), *(statistics or {}).values()]
    if any(abs(number) > LARGEST_VALUE for number in [*numbers, *counts]):
        raise InvalidParameterValue(f"{where} has a number that is too large.")
    if statistics and (statistics["SampleCount"] <= 0 or statistics["Minimum"] > statistics["Maximum"]):
        raise InvalidParameterValue(f"{where}.StatisticValues must have a SampleCount above 0 and Minimum <= Maximum.")


def check_stretch(since: datetime, until: datetime) -> None:
    """Refuse a stretch of time that ends before it begins."""
    if since >= until:
        raise InvalidParameterCombination("The parameter StartTime must be less than the parameter EndTime.")
    if until.year > LAST_YEAR:
        raise InvalidParameterValue("The parameter EndTime is too far away.")


def check_period(period: int) -> None:
    """Refuse a period that no whole number of buckets fills."""
    is_whole = period % 60 == 0 or period in (BUCKET_SECONDS, 2 * BUCKET_SECONDS, 3 * BUCKET_SECONDS)
    if not is_whole or period > LONGEST_PERIOD_SECONDS:
        raise InvalidParameterValue(
            f"The parameter Period must be 10, 20, 30 or a multiple of 60 up to {LONGEST_PERIOD_SECONDS}."
        )


def check_statistics(names: Sequence[str]) -> None:
    """Refuse a query for no statistic, or for one that is not known."""
    if not names:
        raise MissingParameter("At least one of the parameters Statistics and ExtendedStatistics is required.")
    for name in names:
        if not is_statistic(name):
            raise InvalidParameterValue(f"The statistic {name[:64]!r} is not supported by Headrace.")
