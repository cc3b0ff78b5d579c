"""What is told over PostgreSQL's notifications to all who claim requests. Each notice is a hint, and the queue the truth.

"<endpoint> <request>"    this request was queued at this endpoint, one alone (both by their ids)
"<endpoint>"              more than one was
""                        anything may have been queued anywhere
"cancelled"               look for leases that are lost
"unreached <instance>"    an instance could not be connected to (see `workers.invocations.reach`)
"""

from typing import NamedTuple
from uuid import UUID

CHANNEL = "headrace_async"

CANCELLED_NOTICE = "cancelled"


class Queued(NamedTuple):
    """What a notice tells of one endpoint, and of the request, if it is one alone."""

    endpoint_id: UUID
    request_id: UUID | None


def queued(notice: str) -> Queued | None:
    """What the notice tells of one endpoint; None where it tells of something else."""
    endpoint, _, request = notice.partition(" ")
    try:
        return Queued(UUID(endpoint), UUID(request) if request else None)
    except ValueError:
        return None
