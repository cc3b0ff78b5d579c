"""Giving back what this worker has leased and does not work on: at once, and not only when the lease has run out.

    its task ended without an outcome, or was stopped with the worker    queued again, an attempt that failed
    its claim's answer was lost with the connection                      queued again, as if it had not been claimed

A claim whose answer was lost may still be done a moment later, so its token is tried as long as its lease would be good.
"""

from collections.abc import Sequence
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.invocations.steps import Step
from controlplane.invocations.steps_sql import appended, one_step
from workers.invocations.leased import Leased
from workers.invocations.plan import ATTEMPTS_LIMIT, GIVEN_BACK_TEXT, UNHEARD_TEXT, Kind
from workers.invocations.statements import BACK

GIVE_BACK = BACK.format(which="(id, lease_token) IN (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::uuid[]))")

UNDO = f"""
UPDATE invocations_asyncinvocation
SET state = 'queued', due_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
    attempts = attempts - 1, {appended(1, one_step(Step.RETRIED, "attempts", "%(text)s::text"))}
WHERE state = 'running' AND lease_token = ANY (%(tokens)s::uuid[])
"""  # noqa: S608 - composed of constants


async def give_back(pool: AsyncConnectionPool, abandoned: Sequence[Leased], unheard: Sequence[UUID]) -> None:
    """Put `abandoned` requests back into the queue, and what was claimed by the tokens of `unheard` claims.

    After the last attempt the failure of an abandoned one is decided. What somebody else holds by now is left alone.
    """
    now = clock.now()
    common = {"now": now, "at": now.isoformat()}
    async with pool.connection() as connection:
        if abandoned:
            held = {"ids": [each.id for each in abandoned], "tokens": [each.lease_token for each in abandoned]}
            params = {**common, **held, "count": len(abandoned), "limit": ATTEMPTS_LIMIT}
            await connection.execute(GIVE_BACK, {**params, "text": GIVEN_BACK_TEXT, "kind": Kind.ABANDONED.value})
        if unheard:
            await connection.execute(UNDO, {**common, "tokens": list(unheard), "text": UNHEARD_TEXT})
