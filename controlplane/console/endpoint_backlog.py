"""What waits at one asynchronous endpoint, what runs there, and what has failed: for its page and for `explain`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from controlplane.endpoints.models import Endpoint
from controlplane.invocations.backlog import Queued, next_in_line, queued_at
from controlplane.invocations.search import DEAD_STATES, ClassCount, Filter, counts


@dataclass(frozen=True)
class Backlog:
    """What waits, since when the next in line does, what runs, and what has failed by kind."""

    queued: Queued
    next_accepted_at: datetime | None
    running: int
    dead: tuple[ClassCount, ...]

    @property
    def dead_total(self) -> int:
        """All that failed or expired and may be put back."""
        return sum(each.count for each in self.dead)

    def __str__(self) -> str:
        since = f", the next since {self.next_accepted_at:%H:%M:%S}" if self.next_accepted_at else ""
        kinds = ", ".join(f"{each.count:,} {each.failure_kind or each.state}" for each in self.dead)
        classes = f" ({kinds})" if kinds else ""
        return f"{self.queued} waiting{since}; {self.running:,} running; {self.dead_total:,} failed or expired{classes}"


def backlog_of(endpoint: Endpoint, calls: Mapping[UUID, int]) -> Backlog:
    """The endpoint's backlog; `calls` is what runs on each of its instances."""
    which = Filter(endpoint.account_id, endpoint.name, DEAD_STATES)
    queued = queued_at([endpoint.id]).get(endpoint.id, Queued())
    return Backlog(queued, next_in_line(endpoint.id), sum(calls.values()), tuple(counts(which)))
