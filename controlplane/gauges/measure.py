"""Looking: a handful of queries that read an index or a small table each, none of them the queue itself."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from controlplane.core.liveness import LIVE_SECONDS
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import Phase
from controlplane.fleet.models import CapacityMark, GatewayHeartbeat, Instance
from controlplane.fleet.overdue import END_OVERDUE_SECONDS
from controlplane.fleet.states import LIVE_STAGES, InstanceStage
from controlplane.gauges.reading import (
    SERIES,
    Backlog,
    FailingVariant,
    Fleet,
    Leaks,
    Machinery,
    Reading,
    ShortVariant,
    Traffic,
)
from controlplane.metrics.series import BUCKET_SECONDS, OWN_NAMESPACE, bucket_start
from controlplane.observability.models import Heartbeat
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OPEN, OrphanState

ROLES = ("gateway", "scheduler", "worker")
"""Told even when none is alive: a series that vanishes raises no alarm."""

WINDOW_SECONDS = 60

# A bucket's document has an aggregate for each metric and unit: how many values, their sum, and more.
_CALLS = """
SELECT metric_set.account_id, metric_set.dimensions ->> 'EndpointName', metric_set.dimensions ->> 'VariantName',
  sum((bucket.document #>> '{Invocation5XXErrors,None,0}')::float8),
  sum((bucket.document #>> '{Invocation5XXErrors,None,1}')::float8)
FROM metrics_metricbucket AS bucket JOIN metrics_metricset AS metric_set ON metric_set.id = bucket.metric_set_id
WHERE bucket.starts_at >= %s AND metric_set.namespace = %s AND bucket.document ? 'Invocation5XXErrors'
  AND metric_set.dimensions ? 'VariantName' AND NOT metric_set.dimensions ? 'EndpointConfigName'
GROUP BY 1, 2, 3
"""

# The scheduler samples every backlog once in ten seconds; counting the queue again here would cost what it costs there.
_BACKLOGS = """
SELECT DISTINCT ON (bucket.metric_set_id) metric_set.account_id, metric_set.dimensions ->> 'EndpointName',
  (bucket.document #>> '{ApproximateBacklogSize,Count,1}')::float8,
  (bucket.document #>> '{ApproximateAgeOfOldestRequest,Seconds,1}')::float8
FROM metrics_metricbucket AS bucket JOIN metrics_metricset AS metric_set ON metric_set.id = bucket.metric_set_id
WHERE bucket.starts_at >= %s AND bucket.source = 'backlog' AND metric_set.namespace = %s
ORDER BY bucket.metric_set_id, bucket.starts_at DESC
"""


def measure(now: datetime) -> Reading:
    """One look at everything."""
    return Reading(_fleet(now), _traffic(now), _leaks(now), _machinery(now))


def _fleet(now: datetime) -> Fleet:
    endpoints = _counted(Endpoint.objects.values_list("phase").annotate(Count("id")), Phase.values)
    live = Instance.objects.filter(stage__in=LIVE_STAGES)
    instances = _counted(live.values_list("stage").annotate(Count("id")), [str(stage) for stage in LIVE_STAGES])
    short = _short_variants()
    closed = CapacityMark.objects.filter(until__gt=now).values_list("instance_type").annotate(count=Count("id"))
    return Fleet(
        endpoints,
        instances,
        float(live.aggregate(total=Sum("hourly_price"))["total"] or 0),
        tuple(ShortVariant(*row) for row in short[:SERIES]),
        short.count(),
        dict(closed.order_by("-count", "instance_type")[:SERIES]),
    )


def _short_variants() -> "QuerySet[Any, Any]":
    """Account, endpoint, variant, wanted and ready; those that lack most come first."""
    rows = EndpointVariant.objects.filter(retired_at=None, current_count__lt=F("desired_count"))
    rows = rows.exclude(endpoint__phase__in=(Phase.DELETING, Phase.FAILED))
    counts = rows.values_list("endpoint__account_id", "endpoint__name", "name")
    summed = counts.annotate(wanted=Sum("desired_count"), ready=Sum("current_count"))
    return summed.order_by(F("ready") - F("wanted"), "endpoint__account_id", "endpoint__name", "name")


def _traffic(now: datetime) -> Traffic:
    since = datetime.fromtimestamp(bucket_start(now.timestamp()) - WINDOW_SECONDS, tz=now.tzinfo)
    variants = [
        FailingVariant(account_id, endpoint, name, int(calls), int(failed))
        for account_id, endpoint, name, calls, failed in _rows(_CALLS, since)
    ]
    failing = sorted((each for each in variants if each.failed), key=lambda each: -each.failed)
    backlogs = [Backlog(account_id, name, int(size), age) for account_id, name, size, age in _samples(now)]
    backlogs.sort(key=lambda each: -each.oldest_seconds)
    return Traffic(
        sum(each.calls for each in variants),
        sum(each.failed for each in variants),
        tuple(failing[:SERIES]),
        sum(each.size for each in backlogs),
        max((each.oldest_seconds for each in backlogs), default=0.0),
        tuple(each for each in backlogs[:SERIES] if each.size),
    )


def _samples(now: datetime) -> list[tuple[Any, ...]]:
    """The newest sample of each backlog; a scheduler that has stopped lets them run out."""
    return _rows(_BACKLOGS, now - timedelta(seconds=3 * BUCKET_SECONDS))


def _rows(statement: str, since: datetime) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [since, OWN_NAMESPACE])
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def _leaks(now: datetime) -> Leaks:
    asked_before = now - timedelta(seconds=END_OVERDUE_SECONDS)
    ends = Instance.objects.filter(stage=InstanceStage.TERMINATING, stage_since__lt=asked_before).count()
    ends += Orphan.objects.filter(state=OrphanState.ENDING, asked_at__lt=asked_before).count()
    orphans = Orphan.objects.filter(state__in=OPEN)
    return Leaks(
        ends,
        _counted(orphans.values_list("state").annotate(Count("id")), [str(state) for state in OPEN]),
        orphans.aggregate(total=Sum("hourly_price"))["total"] or 0.0,
        Sweep.objects.filter(held_since__isnull=False).exists(),
    )


def _machinery(now: datetime) -> Machinery:
    seen_since = now - timedelta(seconds=LIVE_SECONDS)
    live = Heartbeat.objects.filter(seen_at__gte=seen_since).values_list("role").annotate(Count("process_id"))
    gateways = GatewayHeartbeat.objects.filter(seen_at__gte=seen_since)
    # One that is held is being looked at, however long that takes.
    unheld = Endpoint.objects.filter(Q(claim_token=None) | Q(claim_expires_at__lte=now), look_again_at__lt=now)
    due_at = unheld.aggregate(at=Min("look_again_at"))["at"]
    return Machinery(
        _counted(live, ROLES),
        gateways.aggregate(age=Max("table_age_seconds"))["age"],
        (now - due_at).total_seconds() if due_at else 0.0,
    )


def _counted(rows: Iterable[tuple[str, int]], names: Iterable[str]) -> dict[str, int]:
    """Counts by name, with a 0 for each of `names` that was not found."""
    return dict.fromkeys(names, 0) | dict(rows)
