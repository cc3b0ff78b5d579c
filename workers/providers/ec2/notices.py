"""Announced ends of instances that still run: spot interruptions and scheduled events.

Both are asked for the whole account, since what is announced is rare: one call each, whatever the size of the fleet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

SPOT_SECONDS = 10.0
"""How often interruptions are asked for: the notice comes two minutes before the end."""

EVENTS_SECONDS = 300.0
"""How often scheduled events are asked for: they are announced days ahead."""

INTERRUPTION_NOTICE_SECONDS = 120.0

SPOT_CODES = ("marked-for-termination", "marked-for-stop")
EVENT_CODES = ("instance-retirement", "instance-stop", "instance-reboot", "system-reboot", "system-maintenance")

_OVER = ("[Completed]", "[Canceled]")
"""How EC2 marks an event that is no longer to come, in its description."""


@dataclass(frozen=True)
class Notice:
    """`why` is one line for humans; `ends_at` the time EC2 named, None when it named none."""

    why: str
    ends_at: datetime | None = None


def spot_notices(requests: Iterable[Mapping[str, Any]]) -> dict[str, Notice]:
    """The notices in an answer of DescribeSpotInstanceRequests, by instance id."""
    found = {}
    for request in requests:
        status = request.get("Status", {})
        if request.get("InstanceId") and status.get("Code") in SPOT_CODES:
            at = status.get("UpdateTime")
            ends_at = at + timedelta(seconds=INTERRUPTION_NOTICE_SECONDS) if at else None
            found[request["InstanceId"]] = Notice(f"EC2 takes this spot instance back ({status['Code']})", ends_at)
    return found


def event_notices(statuses: Iterable[Mapping[str, Any]]) -> dict[str, Notice]:
    """The first event to come of each instance in an answer of DescribeInstanceStatus, by instance id."""
    found = {}
    for status in statuses:
        coming = [event for event in status.get("Events", []) if not event.get("Description", "").startswith(_OVER)]
        dated = sorted(coming, key=lambda event: str(event.get("NotBefore", "")))
        if dated:
            event = dated[0]
            why = f"EC2 has scheduled {event['Code']}: {event.get('Description', '')}".rstrip(": ")
            found[status["InstanceId"]] = Notice(why[:300], event.get("NotBefore"))
    return found
