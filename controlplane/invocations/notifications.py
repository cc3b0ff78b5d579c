"""Trying an endpoint's topics: a test message to each, as the service this mirrors sends with every change.

The messages are written in the transaction of the change and sent by the workers. Until each was taken, or given up, the
operation is not over; one that was given up fails it (`workers.fleet.topics`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from controlplane.invocations.delivery import Delivery
from controlplane.invocations.messages import TEST
from controlplane.invocations.models import AsyncNotification, NotificationKind


@dataclass(frozen=True)
class Trial:
    """Where the test messages of an endpoint's last change stand: how many wait, and what was refused and why."""

    waiting: int = 0
    refused_topic: str = ""
    error: str = ""


def try_topics(
    account_id: str, endpoint_id: UUID, endpoint_name: str, config: Mapping[str, Any] | None, now: datetime
) -> None:
    """Write a test message for each topic in an AsyncInferenceConfig, in place of those of an earlier change."""
    AsyncNotification.objects.filter(endpoint_id=endpoint_id, kind=NotificationKind.TEST).delete()
    AsyncNotification.objects.bulk_create(
        AsyncNotification(
            account_id=account_id,
            endpoint_id=endpoint_id,
            endpoint_name=endpoint_name,
            kind=NotificationKind.TEST,
            topic=topic,
            message=TEST,
            created_at=now,
            due_at=now,
        )
        for topic in Delivery.of_config(config or {}).topics
    )


def trial_of(endpoint_id: UUID) -> Trial:
    """Where the test messages of this endpoint stand."""
    rows = list(AsyncNotification.objects.filter(endpoint_id=endpoint_id, kind=NotificationKind.TEST).order_by("id"))
    refused = [row for row in rows if row.given_up_at is not None]
    waiting = len(rows) - len(refused)
    return Trial(waiting, refused[0].topic, refused[0].last_error) if refused else Trial(waiting)
