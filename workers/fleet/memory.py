"""Capacity memory: what one endpoint's refusal teaches all of them, stored.

    (no mark) -- refused --> CLOSED until `until` -- time passes --> HALF OPEN -- one probe --> (no mark) | CLOSED, longer
                               ^     (an instance of the type ends: HALF OPEN at once)              |
                               +-------------------------- refused again ---------------------------+

Written inside the transaction of the outcome that teaches it. The lengths are `capacity`'s pure rules.
"""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from controlplane.fleet.models import CapacityMark, Instance, LaunchAttempt
from workers.fleet.capacity import PROBE_SECONDS, mark_seconds, streak_after
from workers.providers.errors import ProviderError


def remember_refusal(attempt: LaunchAttempt, error: ProviderError, now: datetime) -> datetime:
    """Close the attempt's offering for all endpoints; returns until when."""
    mark = _marks(attempt).select_for_update().first()
    streak = streak_after(mark.streak, mark.marked_at, mark.until, now) if mark else 1
    until = now + timedelta(seconds=mark_seconds(error.kind, streak, settings.HEADRACE.capacity_mark_seconds))
    facts = {
        "kind": error.kind.value,
        "message": error.message,
        "marked_at": now,
        "until": until,
        "streak": streak,
        "seen_by": attempt.endpoint.name,
        "probe_token": "",
        "probe_expires_at": None,
    }
    _mark(attempt, facts)
    return until


def forget_refusal(attempt: LaunchAttempt) -> None:
    """A launch worked: the offering is open again."""
    _marks(attempt).delete()


def is_closed(attempt: LaunchAttempt, now: datetime) -> bool:
    """Whether the attempt's offering is closed by now, whatever was seen of it when the launch was planned."""
    return _marks(attempt).filter(Q(until__gt=now) | Q(probe_expires_at__gt=now)).exists()


def take_probe(attempt: LaunchAttempt, now: datetime) -> bool:
    """Whether this attempt may probe a half-open offering; False when another one is at it or it closed meanwhile."""
    free = Q(probe_expires_at=None) | Q(probe_expires_at__lte=now)
    marks = _marks(attempt)
    if not marks.exists():
        return True
    return bool(
        marks.filter(free, until__lte=now).update(
            probe_token=attempt.token, probe_expires_at=now + timedelta(seconds=PROBE_SECONDS)
        )
    )


def release_probe(attempt: LaunchAttempt) -> None:
    """The probe ended without telling anything of capacity (a throttle, a misconfiguration): let another one try."""
    _marks(attempt).filter(probe_token=attempt.token).update(probe_token="", probe_expires_at=None)


def reopen(instance: Instance, now: datetime) -> None:
    """An instance of this offering has ended, so there is room for at least one probe before the mark runs out."""
    _marks(instance).filter(until__gt=now, kind="capacity").update(until=now)


def note_interruption(instance: Instance, why: str, now: datetime) -> None:
    """The market took an instance back: it has none to spare, so its offering is closed as after a refusal.

    A longer mark, for a quota say, stays as it is.
    """
    until = now + timedelta(seconds=settings.HEADRACE.capacity_mark_seconds)
    if _marks(instance).filter(until__gte=until).exists():
        return
    facts = {
        "kind": "interrupted",
        "message": why,
        "marked_at": now,
        "until": until,
        "seen_by": instance.endpoint.name,
    }
    _mark(instance, facts)


def _mark(row: LaunchAttempt | Instance, facts: dict[str, Any]) -> None:
    """Store these facts of a mark, new or not, in one statement: another worker's success may delete it at any moment,
    also between a statement that finds it there and one that would read it.
    """
    key = _key(row)
    mark = CapacityMark(**key, **facts)
    CapacityMark.objects.bulk_create([mark], update_conflicts=True, unique_fields=[*key], update_fields=[*facts])


def _key(row: LaunchAttempt | Instance) -> dict[str, str]:
    """What a mark is kept for: the offering of this attempt or instance."""
    return {
        "provider": row.provider,
        "region": settings.HEADRACE.region,
        "zone": row.zone,
        "instance_type": row.instance_type,
        "market": row.market,
    }


def _marks(row: LaunchAttempt | Instance) -> "QuerySet[CapacityMark]":
    return CapacityMark.objects.filter(**_key(row))
