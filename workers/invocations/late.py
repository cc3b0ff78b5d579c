"""Answers that came too late: the request was cancelled, or its failure decided, while the model worked.

They are dropped, since a request has one outcome, and that is told as an event of the endpoint.
"""

from typing import Protocol
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock


class Known(Protocol):
    """The request that was answered."""

    @property
    def id(self) -> UUID: ...


_TELL = """
INSERT INTO observability_event (at, account_id, subject_kind, subject_id, subject_name, reason, sentence, detail)
SELECT %(now)s, account_id, 'endpoint', endpoint_id, endpoint_name, 'LateAnswerDropped',
       format('The answer of request %%s came after its outcome was decided (%%s) and was dropped.', id, failure_kind),
       jsonb_build_object('request', id, 'failureKind', failure_kind)
FROM invocations_asyncinvocation WHERE id = %(id)s AND failure_kind <> ''
"""


async def tell_dropped(pool: AsyncConnectionPool, answered: Known) -> None:
    """Write the event, if the request's outcome is decided; a lease that was lost to another worker is no news."""
    async with pool.connection() as connection:
        await connection.execute(_TELL, {"id": answered.id, "now": clock.now()})
