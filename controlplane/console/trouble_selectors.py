"""Reading what may be wrong, for `problems`. A fixed number of queries, each bounded, whatever the installation holds."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, Sum

from controlplane.console.endpoint_trouble import STUCK_SECONDS
from controlplane.console.facts import (
    Alarm,
    Backlog,
    Backlogs,
    Closed,
    EndpointFact,
    Facts,
    Letters,
    Orphans,
    Overdue,
    Process,
    Shortage,
)
from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.states import Phase
from controlplane.fleet.models import CapacityMark, GatewayHeartbeat, Instance
from controlplane.fleet.overdue import END_OVERDUE_SECONDS
from controlplane.fleet.states import InstanceStage
from controlplane.metrics.models import AlarmStateValue, MetricAlarm
from controlplane.metrics.series import OWN_NAMESPACE
from controlplane.observability.models import Heartbeat, ProviderReport
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OPEN, OrphanState

LISTED = 20
"""So many of a kind are named; the others are counted."""

SAMPLE_SECONDS = 40
"""Backlogs are measured every ten seconds; a sample older than this is not shown."""

LETTERS_SECONDS = 3600
LETTERS_COUNTED = 10_000
"""Failed requests beyond these are not counted: that there are so many is all that anybody needs to know."""

CHANGING = (Phase.CREATING, Phase.UPDATING, Phase.ROLLING_BACK, Phase.DELETING)


def facts(backlogs: Backlogs, now: datetime) -> Facts:
    """Everything that may be wrong; of what waits, as `backlogs` has read it."""
    closed = closed_types(now)
    listed, more = _endpoints(now)
    alarms, more_alarms = _alarms()
    late = Endpoint.objects.filter(look_again_at__lt=now - timedelta(seconds=30)).aggregate(
        n=Count("id"), since=Min("look_again_at")
    )
    return Facts(
        endpoints=listed,
        more_endpoints=more,
        shortages=_shortages(closed),
        closed=_closed(closed),
        overdue=_overdue(now),
        orphans=_orphans(now),
        backlogs=backlogs,
        letters=_letters(now),
        processes=_processes(),
        alarms=alarms,
        more_alarms=more_alarms,
        behind=late["n"],
        behind_since=late["since"],
    )


def closed_types(now: datetime) -> tuple[str, ...]:
    """The types that are marked wherever they are sold on demand: in every zone that the provider last told of."""
    report = ProviderReport.objects.filter(provider=settings.HEADRACE.provider).first()
    if report is None:
        return ()
    rows = CapacityMark.objects.filter(
        provider=settings.HEADRACE.provider, region=settings.HEADRACE.region, market=report.markets[0], until__gt=now
    )
    counted = rows.filter(zone__in=report.zones).values_list("instance_type").annotate(Count("zone", distinct=True))
    return tuple(sorted(name for name, zones in counted if zones >= len(report.zones)))


def _endpoints(now: datetime) -> tuple[tuple[EndpointFact, ...], int]:
    trouble = (
        Q(phase__in=(Phase.FAILED, Phase.UPDATE_ROLLBACK_FAILED))
        | Q(phase__in=CHANGING, modified_at__lt=now - timedelta(seconds=STUCK_SECONDS))
        | Q(phase__in=(Phase.CREATING, Phase.UPDATING), is_refused=True)
        | (Q(phase=Phase.IN_SERVICE) & ~Q(failure_reason=""))
    )
    refused = EndpointVariant.objects.filter(endpoint=OuterRef("pk"), retired_at=None, refusals__gt=0)
    rows = Endpoint.objects.annotate(is_refused=Exists(refused)).filter(trouble)
    listed = rows.order_by("phase", "modified_at").values_list(
        "account_id", "name", "phase", "why", "failure_reason", "modified_at", "is_refused"
    )[: LISTED + 1]
    found = [EndpointFact(*row) for row in listed]
    more = rows.count() - LISTED if len(found) > LISTED else 0
    return tuple(found[:LISTED]), more


def _shortages(closed: tuple[str, ...]) -> tuple[Shortage, ...]:
    rows = EndpointVariant.objects.filter(
        retired_at=None, current_count__lt=F("desired_count"), endpoint__phase=Phase.IN_SERVICE
    )
    rows = rows.annotate(has_open=Exists(_open_pools(closed))).select_related("endpoint").order_by("current_count", "id")
    return tuple(
        Shortage(
            row.endpoint.account_id,
            row.endpoint.name,
            row.name,
            row.current_count,
            row.desired_count,
            row.endpoint.why,
            row.short_since,
            not row.has_open,
        )
        for row in rows[:LISTED]
    )


def _closed(closed: tuple[str, ...]) -> Closed | None:
    """Variants that have all they want, on types that are all marked."""
    if not closed:
        return None
    rows = EndpointVariant.objects.filter(
        ~Exists(_open_pools(closed)),
        retired_at=None,
        desired_count__gt=0,
        current_count__gte=F("desired_count"),
        endpoint__phase=Phase.IN_SERVICE,
    )
    first = rows.order_by("id").values_list("endpoint__account_id", "endpoint__name").first()
    if first is None:
        return None
    pools = VariantPool.objects.filter(variant__in=rows.values("pk"))
    types = pools.order_by("instance_type").values_list("instance_type", flat=True).distinct()
    return Closed(rows.count(), *first, tuple(types))


def _open_pools(closed: tuple[str, ...]):
    return VariantPool.objects.filter(variant=OuterRef("pk")).exclude(instance_type__in=closed)


def _overdue(now: datetime) -> Overdue | None:
    rows = Instance.objects.filter(
        stage=InstanceStage.TERMINATING, stage_since__lt=now - timedelta(seconds=END_OVERDUE_SECONDS)
    )
    first = rows.order_by("stage_since").values_list("provider_id", "instance_type", "stage_since").first()
    if first is None:
        return None
    found = rows.aggregate(count=Count("id"), hourly=Sum("hourly_price"))
    return Overdue(found["count"], *first, float(found["hourly"] or 0))


def _orphans(now: datetime) -> Orphans | None:
    late = Q(state=OrphanState.ENDING, asked_at__lt=now - timedelta(seconds=END_OVERDUE_SECONDS))
    found = Orphan.objects.filter(state__in=OPEN).aggregate(
        count=Count("id"),
        hourly=Sum("hourly_price"),
        unpriced=Count("id", filter=Q(hourly_price=None)),
        overdue=Count("id", filter=late),
        since=Min("found_at"),
    )
    sweep = Sweep.objects.filter(pk=1).first()
    held = (sweep.held_since, sweep.held_why) if sweep else (None, "")
    if not found["count"] and held[0] is None:
        return None
    return Orphans(found["count"], found["hourly"] or 0.0, found["unpriced"], found["overdue"], found["since"], *held)


_BACKLOGS = """
SELECT account_id, endpoint, size, age, lacks, max(starts_at) OVER (), sum(size) OVER () FROM (
  SELECT DISTINCT ON (metric_set.id) metric_set.account_id, metric_set.dimensions ->> 'EndpointName' AS endpoint,
    (bucket.document -> 'ApproximateBacklogSize' -> 'Count' ->> 3)::float8 AS size,
    (bucket.document -> 'ApproximateAgeOfOldestRequest' -> 'Seconds' ->> 3)::float8 AS age,
    (bucket.document -> 'HasBacklogWithoutCapacity' -> 'Count' ->> 3)::float8 > 0 AS lacks, bucket.starts_at
  FROM metrics_metricbucket AS bucket JOIN metrics_metricset AS metric_set ON metric_set.id = bucket.metric_set_id
  WHERE bucket.starts_at > %s AND bucket.source = 'backlog' AND metric_set.namespace = %s
  ORDER BY metric_set.id, bucket.starts_at DESC
) AS latest ORDER BY size = 0, age DESC, endpoint LIMIT %s
"""
"""The last of an aggregate's four numbers is its maximum (`metrics.statistics`), and a sample is one value."""


def backlogs(now: datetime) -> Backlogs:
    """Where something waits, as the scheduler last measured it (`workers.metrics.backlog`): counting takes it, not us."""
    with connection.cursor() as cursor:
        cursor.execute(_BACKLOGS, [now - timedelta(seconds=SAMPLE_SECONDS), OWN_NAMESPACE, LISTED])
        rows = cursor.fetchall()
    lines = (Backlog(account_id, name, int(size), age, lacks) for account_id, name, size, age, lacks, *_ in rows if size)
    measured_at, total = rows[0][5:] if rows else (None, 0)
    return Backlogs(tuple(lines), measured_at, int(total))


_LETTERS = """
SELECT account_id, endpoint_name, failure_kind, count(*), max(total) > %(limit)s FROM (
  SELECT account_id, endpoint_name, failure_kind, count(*) OVER () AS total FROM (
    SELECT account_id, endpoint_name, failure_kind FROM invocations_asyncinvocation
    WHERE state IN ('failed', 'expired') AND ended_at > %(since)s ORDER BY ended_at DESC LIMIT %(limit)s + 1
  ) AS latest
) AS counted GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT %(listed)s
"""


def _letters(now: datetime) -> tuple[Letters, ...]:
    since = now - timedelta(seconds=LETTERS_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(_LETTERS, {"since": since, "limit": LETTERS_COUNTED, "listed": 5})
        return tuple(Letters(*row) for row in cursor.fetchall())


def _processes() -> tuple[Process, ...]:
    tables = dict(GatewayHeartbeat.objects.values_list("gateway_id", "table_age_seconds"))
    # Each role has one newest row, which is what tells whether it is alive; gateways are looked at one by one.
    newest = Heartbeat.objects.exclude(role="gateway").values_list("role").annotate(Max("seen_at"))
    gateways = Heartbeat.objects.filter(role="gateway").values_list("role", "process_id", "seen_at")
    return (
        *(Process(role, "", seen_at) for role, seen_at in newest),
        *(Process(role, each, seen_at, tables.get(each, 0.0)) for role, each, seen_at in gateways),
    )


def _alarms() -> tuple[tuple[Alarm, ...], int]:
    rows = MetricAlarm.objects.filter(state=AlarmStateValue.ALARM).order_by("state_since")
    found = [Alarm(*row) for row in rows.values_list("account_id", "name", "reason", "state_since")[: LISTED + 1]]
    more = rows.count() - LISTED if len(found) > LISTED else 0
    return tuple(found[:LISTED]), more
