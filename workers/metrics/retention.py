"""Old metrics are deleted, in batches: no statement of it holds its rows for long."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from controlplane.metrics.models import MetricSet

BATCH = 10_000
MOST_BATCHES = 20
"""Of one sweep, an hour: as many buckets as some 3,000 busy metric sets have, those of a minute being joined by then."""

_DELETE = """
DELETE FROM metrics_metricbucket WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM metrics_metricbucket WHERE starts_at < %s ORDER BY starts_at LIMIT %s FOR UPDATE SKIP LOCKED))
"""


def sweep(now: datetime, batch: int = BATCH) -> int:
    """Delete buckets beyond their retention, and metric sets that nothing was written for since; returns the buckets."""
    oldest_kept = now - timedelta(seconds=settings.HEADRACE.metrics_retention_seconds)
    deleted = 0
    for _ in range(MOST_BATCHES):
        with connection.cursor() as cursor:
            cursor.execute(_DELETE, [oldest_kept, batch])
            found = cursor.rowcount
        deleted += found
        if found < batch:
            break
    unused = MetricSet.objects.filter(seen_at__lt=oldest_kept).values("pk")[:batch]
    MetricSet.objects.filter(pk__in=unused).delete()
    return deleted
