"""Retention: what has ended long ago is deleted, in small steps."""

from datetime import datetime, timedelta

from controlplane.invocations.models import ENDED, AsyncInvocation
from controlplane.observability import heartbeats
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OrphanState
from controlplane.routing.models import RoutingSnapshot
from workers.metrics import retention as metrics

EVENT_DAYS = 30
INVOCATION_DAYS = 7
TOMBSTONE_DAYS = 1
BATCH = 10_000


def sweep(now: datetime) -> None:
    """Delete at most one batch of each kind, of metrics many; what is left waits for the next hour."""
    heartbeats.forget_dead(now)
    metrics.sweep(now)
    old_events = Event.objects.filter(at__lt=now - timedelta(days=EVENT_DAYS)).values("pk")[:BATCH]
    Event.objects.filter(pk__in=old_events).delete()
    ended = AsyncInvocation.objects.filter(state__in=ENDED, ended_at__lt=now - timedelta(days=INVOCATION_DAYS))
    AsyncInvocation.objects.filter(pk__in=ended.values("pk")[:BATCH]).delete()
    RoutingSnapshot.objects.filter(document=None, changed_at__lt=now - timedelta(days=TOMBSTONE_DAYS)).delete()
    gone = Orphan.objects.filter(state=OrphanState.GONE, state_since__lt=now - timedelta(days=EVENT_DAYS))
    Orphan.objects.filter(pk__in=gone.values("pk")[:BATCH]).delete()
