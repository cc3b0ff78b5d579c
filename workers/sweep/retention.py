"""Retention: what has ended long ago is deleted, in small steps."""

from datetime import datetime, timedelta

from django.contrib.sessions.models import Session

from controlplane.auth import tokens
from controlplane.observability import heartbeats
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OrphanState
from controlplane.routing.models import RoutingSnapshot
from workers.invocations import retention as invocations
from workers.metrics import retention as metrics

EVENT_DAYS = 30
TOMBSTONE_DAYS = 1
BATCH = 10_000


def sweep(now: datetime) -> None:
    """Delete at most one batch of each kind, of metrics and requests many; what is left waits an hour."""
    heartbeats.forget_dead(now)
    metrics.sweep(now)
    invocations.sweep(now)
    old_events = Event.objects.filter(at__lt=now - timedelta(days=EVENT_DAYS)).values("pk")[:BATCH]
    Event.objects.filter(pk__in=old_events).delete()
    RoutingSnapshot.objects.filter(document=None, changed_at__lt=now - timedelta(days=TOMBSTONE_DAYS)).delete()
    gone = Orphan.objects.filter(state=OrphanState.GONE, state_since__lt=now - timedelta(days=EVENT_DAYS))
    Orphan.objects.filter(pk__in=gone.values("pk")[:BATCH]).delete()
    Session.objects.filter(pk__in=Session.objects.filter(expire_date__lt=now).values("pk")[:BATCH]).delete()
    tokens.forget_ended(now - timedelta(days=EVENT_DAYS), BATCH)
