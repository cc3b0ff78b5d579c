"""Writing events. Called by the code that decides, in the transaction that makes the decision durable."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from controlplane.core import actor
from controlplane.observability.models import Event


@dataclass(frozen=True)
class Subject:
    """What an event tells of."""

    account_id: str
    kind: str
    id: UUID
    name: str


def record(
    subject: Subject, reason: str, sentence: str, *, now: datetime, detail: Mapping[str, object] | None = None
) -> None:
    """Append one event: a CamelCase `reason` for machines, a `sentence` for humans, `detail` as JSON. The actor is
    whoever acts now (`core.actor`).
    """
    Event.objects.create(
        at=now,
        account_id=subject.account_id,
        subject_kind=subject.kind,
        subject_id=subject.id,
        subject_name=subject.name,
        reason=reason,
        sentence=sentence,
        detail=dict(detail or {}),
        actor=actor.current(),
    )
