"""What waits at endpoints, counted as far as it matters: a backlog of a million costs no more than one of a thousand."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from controlplane.invocations.models import AsyncInvocation, InvocationState

COUNTED = 1000
"""Beyond so many it is said that there are more."""

_QUEUED = """
SELECT wanted.id, (
  SELECT count(*) FROM (
    SELECT FROM invocations_asyncinvocation AS queued
    WHERE queued.endpoint_id = wanted.id AND queued.state = 'queued' LIMIT %s
  ) AS head
) FROM unnest(%s::uuid[]) AS wanted (id)
"""


@dataclass(frozen=True)
class Queued:
    """How many requests wait; with `is_more`, at least so many."""

    count: int = 0
    is_more: bool = False

    def __str__(self) -> str:
        return f"{self.count:,}+" if self.is_more else f"{self.count:,}"


def queued_at(endpoint_ids: Collection[UUID], limit: int = COUNTED) -> dict[UUID, Queued]:
    """What waits at each of these endpoints, in one query."""
    if not endpoint_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_QUEUED, [limit + 1, list(endpoint_ids)])
        return {row_id: Queued(min(count, limit), count > limit) for row_id, count in cursor.fetchall()}


def next_in_line(endpoint_id: UUID) -> datetime | None:
    """When the request that is to run next was accepted; None when none waits."""
    rows = AsyncInvocation.objects.filter(endpoint_id=endpoint_id, state=InvocationState.QUEUED)
    return rows.order_by("due_at", "accepted_at").values_list("accepted_at", flat=True).first()
