"""The first ask: while one launch finds out whether an offering has room, the others wait for its answer.

    nobody knows ---- a launch is under way ----> the others look again shortly
         ^                  | launched                | refused                | no answer within the call's time limit
         |                  v                         v                        v
         +---- ANSWER_SECONDS ---- known to be open   a mark: they skip it     somebody else asks

Without it, endpoints created at the same moment would all run into a dry type before its first refusal is stored. It
delays a launch by no more than one provider call, and only on an offering of which nothing is known.
"""

from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q

from controlplane.fleet.models import LaunchAttempt
from controlplane.fleet.states import AttemptStage
from workers.fleet import memory
from workers.providers.base import CALL_TIMEOUT_SECONDS
from workers.providers.errors import ErrorKind

ANSWER_SECONDS = 60.0
"""For so long after a launch the offering is known to be open, and launches on it go side by side."""

LOOK_FIRST_SECONDS = 0.1
LOOK_LAST_SECONDS = 2.0
"""Those who wait look again after as long as the first ask has taken so far, within these bounds."""

_TELLS = Q(stage=AttemptStage.SUCCEEDED) | Q(error_kind=ErrorKind.MISCONFIGURED.value)
"""Answers that show that it is not capacity (nor a throttle) that stands in the way."""


def wait_until(attempt: LaunchAttempt, now: datetime) -> datetime | None:
    """When this launch should be thought of again because another endpoint's is finding out; None when it may go.

    Call it in the transaction that stores the attempt: until that ends, no other launch on the offering gets past here.
    """
    _queue_up(attempt)
    if memory.is_closed(attempt, now):
        return now  # the answer came while this launch was being planned
    others = _launches(attempt).exclude(endpoint_id=attempt.endpoint_id)
    under_way = others.filter(stage=AttemptStage.INTENDED, called_at__gt=now - timedelta(seconds=CALL_TIMEOUT_SECONDS))
    first = under_way.order_by("called_at").values_list("called_at", flat=True).first()
    if first is None or _is_known_open(attempt, now):
        return None
    age = (now - first).total_seconds()
    return now + timedelta(seconds=min(max(age, LOOK_FIRST_SECONDS), LOOK_LAST_SECONDS))


def _is_known_open(attempt: LaunchAttempt, now: datetime) -> bool:
    since = now - timedelta(seconds=ANSWER_SECONDS)
    # The bound on the call's time is for the index: a call ends soon after it began.
    called_since = since - timedelta(seconds=ANSWER_SECONDS)
    return _launches(attempt).filter(_TELLS, called_at__gt=called_since, ended_at__gt=since).exists()


def _launches(attempt: LaunchAttempt):  # type: ignore[no-untyped-def]
    return LaunchAttempt.objects.filter(
        provider=attempt.provider, zone=attempt.zone, instance_type=attempt.instance_type, market=attempt.market
    )


def _queue_up(attempt: LaunchAttempt) -> None:
    """One launch on the offering at a time, for the rest of this (short) transaction."""
    key = "/".join(("first ask", attempt.provider, attempt.zone, attempt.instance_type, attempt.market))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])
