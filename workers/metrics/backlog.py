"""How much waits at each asynchronous endpoint: samples every ten seconds, by EndpointName (contract, control plane 8.6).

Several schedulers write the same sample under the same name, and the last of them counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import Count, Min, Sum
from django.db.models.functions import Coalesce

from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import Phase
from controlplane.invocations.models import AsyncInvocation, InvocationState
from controlplane.metrics import store
from controlplane.metrics.series import OWN_NAMESPACE, MetricSetKey, bucket_start
from controlplane.metrics.statistics import Aggregate

SOURCE = "backlog"
SLICE = 500
"""Endpoints that one statement writes."""


@dataclass(frozen=True)
class Backlog:
    """What waits or runs at an endpoint, since when the oldest of it, and how many instances there are for it."""

    account_id: str
    endpoint_name: str
    size: int
    oldest_at: datetime | None
    instances: int


def sample(now: datetime) -> int:
    """Write a sample of every asynchronous endpoint; returns how many there are."""
    found = list(_observe())
    start = bucket_start(now.timestamp())
    for first in range(0, len(found), SLICE):
        buckets = [store.Bucket(_key(each), start, SOURCE, gauges(each, now)) for each in found[first : first + SLICE]]
        with connection.cursor() as cursor:
            cursor.execute(store.WRITE, [store.rows(buckets)])
    return len(found)


def gauges(backlog: Backlog, now: datetime) -> store.Metrics:
    """The sample's metrics. Without an instance the backlog is that of one: nothing divides it."""
    age = 0.0 if backlog.oldest_at is None else max((now - backlog.oldest_at).total_seconds(), 0.0)
    values = {
        "ApproximateBacklogSize": ("Count", backlog.size),
        "ApproximateBacklogSizePerInstance": ("Count", backlog.size / max(backlog.instances, 1)),
        "ApproximateAgeOfOldestRequest": ("Seconds", age),
        "HasBacklogWithoutCapacity": ("Count", int(backlog.size > 0 and backlog.instances == 0)),
    }
    return {name: {unit: Aggregate.of([(value, 1)])} for name, (unit, value) in values.items()}


def _observe() -> Iterator[Backlog]:
    rows = Endpoint.objects.filter(is_async=True).exclude(phase__in=(Phase.DELETING, Phase.FAILED))
    instances = dict(
        EndpointVariant.objects.filter(endpoint__is_async=True).values_list("endpoint_id").annotate(Sum("current_count"))
    )
    waiting = _added_up([*_open(InvocationState.QUEUED), *_open(InvocationState.RUNNING)])
    for endpoint_id, account_id, name in rows.values_list("id", "account_id", "name"):
        size, oldest_at = waiting.get(endpoint_id, (0, None))
        yield Backlog(account_id, name, size, oldest_at, instances.get(endpoint_id, 0))


def _open(state: InvocationState) -> Iterable[tuple[UUID, int, datetime]]:
    """Endpoint, how many of its invocations are in `state`, and when the oldest was accepted; each state has an index."""
    rows = AsyncInvocation.objects.filter(state=state).values_list("endpoint_id")
    return rows.annotate(size=Count("id"), oldest=Min(Coalesce("redriven_at", "accepted_at")))


def _added_up(parts: Iterable[tuple[UUID, int, datetime]]) -> dict[UUID, tuple[int, datetime]]:
    found: dict[UUID, tuple[int, datetime]] = {}
    for endpoint_id, size, oldest in parts:
        before, since = found.get(endpoint_id, (0, oldest))
        found[endpoint_id] = before + size, min(since, oldest)
    return found


def _key(backlog: Backlog) -> MetricSetKey:
    return MetricSetKey(backlog.account_id, OWN_NAMESPACE, {"EndpointName": backlog.endpoint_name})
