"""Instances whose end is overdue are told of, once and then every hour. Their end goes on being asked for meanwhile."""

from datetime import datetime, timedelta

from django.db import connection, transaction

from controlplane.fleet.models import Instance
from controlplane.fleet.overdue import END_OVERDUE_SECONDS, TELL_AGAIN_SECONDS
from controlplane.fleet.states import InstanceStage
from controlplane.observability.models import Event
from workers.fleet import events

REASON = "TerminateOverdue"
_ADVISORY_KEY = 7_201_300
"""Names this chore among the transaction-scoped advisory locks, so that two schedulers tell once."""


def sweep(now: datetime) -> int:
    """Tell of overdue ends that were not told of within the hour; returns how many were."""
    with transaction.atomic():
        if not _is_mine():
            return 0
        late = Instance.objects.filter(
            stage=InstanceStage.TERMINATING, stage_since__lt=now - timedelta(seconds=END_OVERDUE_SECONDS)
        ).select_related("endpoint")
        told = _told_since(now - timedelta(seconds=TELL_AGAIN_SECONDS))
        untold = [instance for instance in late if str(instance.id) not in told]
        for instance in untold:
            _tell(instance, now)
    return len(untold)


def _is_mine() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_ADVISORY_KEY])
        return bool(cursor.fetchone()[0])


def _told_since(since: datetime) -> set[str]:
    told = Event.objects.filter(at__gt=since, reason=REASON)
    return {str(instance_id) for instance_id in told.values_list("detail__instance_id", flat=True)}


def _tell(instance: Instance, now: datetime) -> None:
    minutes = (now - instance.stage_since).total_seconds() / 60
    name = f"{instance.instance_type} {str(instance.id)[:8]}"
    sentence = f"{name} was asked to end {minutes:.0f} min ago, still lives and costs, and goes on being asked"
    detail = {"instance_id": str(instance.id), "provider_id": instance.provider_id}
    events.record(instance.endpoint, REASON, sentence, now, detail)
