"""Aggregates add up, and percentiles are as near as they promise."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.metrics.statistics import (
    RELATIVE_ERROR,
    SIMPLE_STATISTICS,
    Aggregate,
    bin_key,
    bin_value,
    is_statistic,
    merged,
    statistic,
)

NUMBERS = st.floats(-1e12, 1e12).filter(lambda number: number == 0 or abs(number) > 1e-9)
VALUES = st.lists(NUMBERS, min_size=1, max_size=60)


def of(values: list[float]) -> Aggregate:
    """The aggregate of values that came once each."""
    return Aggregate.of((value, 1) for value in values)


@given(VALUES)
def test_simple_statistics_are_those_of_the_values(values: list[float]) -> None:
    found = {name: statistic(of(values), name) for name in SIMPLE_STATISTICS}
    assert found["SampleCount"] == len(values)
    assert found["Sum"] == pytest.approx(math.fsum(values))
    assert found["Average"] == pytest.approx(math.fsum(values) / len(values))
    assert (found["Minimum"], found["Maximum"]) == (min(values), max(values))


@given(VALUES, st.sampled_from(["p0", "p10", "p50", "p90", "p99", "p99.9", "p100"]))
def test_a_percentile_is_within_the_relative_error(values: list[float], name: str) -> None:
    rank = max(math.ceil(len(values) * float(name[1:]) / 100 * (1 - 1e-12)), 1)
    true = sorted(values)[rank - 1]
    found = statistic(of(values), name)
    assert found is not None
    assert abs(found - true) <= abs(true) * (RELATIVE_ERROR + 1e-9)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_parts_add_up_to_the_whole(parts: list[list[float]]) -> None:
    whole, together = of([value for part in parts for value in part]), merged(map(of, parts))
    assert together is not None
    assert (together.count, together.low, together.high) == (whole.count, whole.low, whole.high)
    assert together.total == pytest.approx(whole.total)
    assert together.bins == whole.bins


@given(VALUES)
def test_what_is_stored_is_what_is_read(values: list[float]) -> None:
    assert Aggregate.decode(json.loads(json.dumps(of(values).encode()))) == of(values)


@given(st.floats(2.0**-360, 2.0**360))
def test_bins_of_the_whole_range_hold_their_values_and_keep_their_order(value: float) -> None:
    assert bin_value(bin_key(value)) == pytest.approx(value, rel=RELATIVE_ERROR + 1e-9)
    assert bin_key(-value) == -bin_key(value) < bin_key(0) < bin_key(value) <= bin_key(value * 1.5)


def test_without_bins_only_equal_values_have_percentiles() -> None:
    assert statistic(Aggregate(4, 20, 5, 5), "p90") == 5
    assert statistic(Aggregate(4, 20, 1, 9), "p90") is None
    mixed = merged([of([1.0, 2.0]), Aggregate(4, 20, 1, 9)])
    assert mixed is not None
    assert statistic(mixed, "p90") is None
    assert statistic(mixed, "Sum") == 23


def test_nothing_has_no_aggregate() -> None:
    assert merged([]) is None


@pytest.mark.parametrize("name", ["p0", "p50", "p99.99", "p100", "Sum"])
def test_known_statistics(name: str) -> None:
    assert is_statistic(name)


@pytest.mark.parametrize("name", ["p101", "p", "p-1", "tm90", "IQM", "sum", "p5\u0660", "P50", ""])
def test_unknown_statistics(name: str) -> None:
    assert not is_statistic(name)
