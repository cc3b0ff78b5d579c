"""Old buckets become fewer and say the same."""

from datetime import timedelta

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from controlplane.metrics import store
from controlplane.metrics.models import MetricBucket
from controlplane.metrics.read import Wanted, read, windows
from controlplane.metrics.series import MetricSetKey
from controlplane.metrics.statistics import SIMPLE_STATISTICS, Aggregate, merged, statistic
from tests.fakes.clock import START, FakeClock
from workers.metrics.join import FINE_SECONDS, join, joined

KEY = MetricSetKey("123456789012", "mine", {})


def write(seconds: int, value: float, source: str = "a") -> None:
    """One value, this many seconds after the start."""
    metrics = {"m": {"None": Aggregate.of([(value, 1)])}}
    bucket = store.Bucket(KEY, int(START.timestamp()) + seconds, source, metrics)
    with connection.cursor() as cursor:
        cursor.execute(store.WRITE, [store.rows([bucket])])


def by_minute() -> list[tuple[float | None, ...]]:
    """Every statistic of the first three minutes."""
    until = START + timedelta(minutes=3)
    (found,) = read([Wanted(KEY.set_id, "m", None, START, until)])
    points = windows(found.buckets, int(until.timestamp()), 60, 3)
    names = (*SIMPLE_STATISTICS, "p50", "p90")
    return [tuple(None if each is None else statistic(each, name) for name in names) for each in points]


@pytest.mark.django_db
def test_minutes_that_are_old_enough_become_one_bucket_each_and_say_the_same(fake_clock: FakeClock) -> None:
    for place in range(18):
        for source in ("a", "b"):
            write(place * 10, float(place), source)
    before = by_minute()
    fake_clock.step(FINE_SECONDS + 120)
    assert join(fake_clock.now()) == 24
    assert MetricBucket.objects.filter(source="joined").count() == 2
    assert MetricBucket.objects.count() == 2 + 12
    assert by_minute() == before
    assert join(fake_clock.now()) == 0


@pytest.mark.django_db
def test_what_comes_late_joins_its_minute(fake_clock: FakeClock) -> None:
    write(0, 1.0)
    fake_clock.step(FINE_SECONDS + 60)
    join(fake_clock.now())
    write(30, 5.0, "late")
    assert join(fake_clock.now()) == 2
    (row,) = MetricBucket.objects.all()
    assert Aggregate.decode(row.document["m"]["None"]) == Aggregate.of([(1.0, 1), (5.0, 1)])


UNITS = st.dictionaries(st.sampled_from(["None", "Count"]), st.lists(st.floats(0, 1e6), min_size=1, max_size=4), max_size=2)
DOCUMENTS = st.lists(st.dictionaries(st.sampled_from("mn"), UNITS, max_size=2), max_size=5)


@given(DOCUMENTS)
def test_joining_is_adding_up_each_metric_of_each_unit(documents: list[dict[str, dict[str, list[float]]]]) -> None:
    aggregates = [
        {
            name: {unit: Aggregate.of((each, 1) for each in values) for unit, values in units.items()}
            for name, units in one.items()
        }
        for one in documents
    ]
    encoded = [
        {name: {unit: each.encode() for unit, each in units.items()} for name, units in one.items()} for one in aggregates
    ]
    found = joined(encoded)
    for name in "mn":
        for unit in ("None", "Count"):
            whole = merged(one[name][unit] for one in aggregates if unit in one.get(name, {}))
            assert found.get(name, {}).get(unit) == (None if whole is None else whole.encode())
