"""Old buckets go, in batches; what is within its time stays."""

from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection

from controlplane.metrics import store
from controlplane.metrics.models import MetricBucket, MetricSet
from controlplane.metrics.series import MetricSetKey
from controlplane.metrics.statistics import Aggregate
from tests.fakes.clock import FakeClock
from workers.metrics import retention
from workers.sweep import retention as every_hour

pytestmark = pytest.mark.django_db


def write(name: str, *moments: datetime) -> None:
    """One bucket at each of these moments."""
    key = MetricSetKey("123456789012", "mine", {"Name": name})
    one = {"m": {"None": Aggregate.of([(1.0, 1)])}}
    buckets = [store.Bucket(key, int(moment.timestamp()), "test", one) for moment in moments]
    with connection.cursor() as cursor:
        cursor.execute(store.WRITE, [store.rows(buckets)])


def test_buckets_beyond_their_retention_are_deleted_however_many(fake_clock: FakeClock) -> None:
    edge = fake_clock.now() - timedelta(seconds=settings.HEADRACE.metrics_retention_seconds)
    write("old", *(edge - timedelta(seconds=10 * number) for number in range(1, 11)))
    write("young", edge, fake_clock.now())
    assert retention.sweep(fake_clock.now(), batch=4) == 10
    assert MetricBucket.objects.count() == 2


def test_metric_sets_of_which_nothing_is_left_are_forgotten_by_the_hourly_sweep(fake_clock: FakeClock) -> None:
    long_ago = fake_clock.now() - timedelta(seconds=settings.HEADRACE.metrics_retention_seconds + 60)
    write("gone", long_ago)
    write("kept", fake_clock.now())
    MetricSet.objects.filter(dimensions={"Name": "gone"}).update(seen_at=long_ago)
    MetricSet.objects.filter(dimensions={"Name": "kept"}).update(seen_at=fake_clock.now())
    every_hour.sweep(fake_clock.now())
    assert [row.dimensions for row in MetricSet.objects.all()] == [{"Name": "kept"}]
    assert MetricBucket.objects.count() == 1
