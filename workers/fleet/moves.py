"""The bookkeeping of coming-home moves: how many there may be at once, and the hold-down after each."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS

RETRY_SECONDS = 60.0
"""A move for which there was no room is tried again this late."""

_BUDGET_LOCK = 0x48454144  # any constant of our own: one lock for the whole installation


def may_start(attempt: LaunchAttempt, now: datetime) -> bool:
    """Whether one more move may start; if not, the variant waits for its next turn. Call it where the intent is stored.

    The advisory lock makes the count and the intent one step, and is gone with the transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_BUDGET_LOCK])
    moving = Instance.objects.filter(replaces__isnull=False, stage__in=LIVE_STAGES).count()
    moving += LaunchAttempt.objects.filter(replaces__isnull=False, stage__in=OPEN_ATTEMPTS).count()
    if moving < settings.HEADRACE.coming_home_budget:
        return True
    again = now + timedelta(seconds=RETRY_SECONDS)
    EndpointVariant.objects.filter(pk=attempt.variant_id).update(move_not_before=again)
    return False


def hold_down(variant: EndpointVariant, now: datetime) -> str:
    """A move is over, whatever came of it: no other one for a while. Returns the sentence that says so."""
    again = now + timedelta(seconds=settings.HEADRACE.coming_home_hold_down_seconds)
    EndpointVariant.objects.filter(pk=variant.pk).update(move_not_before=again)
    return f"No other move before {again:%H:%M:%S}."
