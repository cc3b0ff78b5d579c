"""The outbox's SQL: messages that are due, leased to one sender, and what came of sending them.

    (written with the outcome) --> due --> leased --> sent: gone, and noted in the request's timeline
                                    ^         |
                                    +---------+--> refused or away: due again later, or given up

A lease that runs out makes the message due again: at least once.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.invocations.steps import Step, clean
from controlplane.invocations.steps_sql import appended, one_step

LEASE_SECONDS = 60.0
"""Longer than a call of the notification service may take with its retries."""

ERROR_LIMIT = 500


@dataclass(frozen=True)
class Letter:
    """A leased message; `attempts` counts this one."""

    id: int
    invocation_id: UUID | None
    account_id: str
    endpoint_id: UUID
    endpoint_name: str
    variant_name: str
    kind: str
    topic: str
    message: str
    attempts: int
    created_at: datetime
    lease_token: UUID


_TAKE = """
UPDATE invocations_asyncnotification n
SET lease_token = %(token)s, lease_expires_at = %(lease_expires_at)s, due_at = %(lease_expires_at)s, attempts = attempts + 1
WHERE id IN (
  SELECT id FROM invocations_asyncnotification
  WHERE given_up_at IS NULL AND due_at <= %(now)s ORDER BY due_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
RETURNING n.id, n.invocation_id, n.account_id, n.endpoint_id, n.endpoint_name, n.variant_name, n.kind, n.topic, n.message,
  n.attempts, n.created_at, n.lease_token
"""

_SENT = f"""
WITH sent AS (
  DELETE FROM invocations_asyncnotification WHERE id = %(id)s AND lease_token = %(token)s
  RETURNING invocation_id, endpoint_id, kind
), woken AS (
  UPDATE endpoints_endpoint endpoint SET look_again_at = %(now)s FROM sent
  WHERE endpoint.id = sent.endpoint_id AND sent.kind = 'test'
), noted AS (
  UPDATE invocations_asyncinvocation invocation
  SET {appended(1, one_step(Step.NOTIFIED, "invocation.attempts", "%(topic)s::text"))}
  FROM sent WHERE invocation.id = sent.invocation_id
)
SELECT count(*) FROM sent
"""  # noqa: S608 - composed of constants

_LATER = """
UPDATE invocations_asyncnotification
SET due_at = %(due_at)s, lease_token = NULL, lease_expires_at = NULL, last_error = %(error)s
WHERE id = %(id)s AND lease_token = %(token)s
"""

_GIVE_UP = """
WITH given_up AS (
  UPDATE invocations_asyncnotification
  SET given_up_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, last_error = %(error)s
  WHERE id = %(id)s AND lease_token = %(token)s
  RETURNING endpoint_id, kind
), woken AS (
  UPDATE endpoints_endpoint endpoint SET look_again_at = %(now)s FROM given_up
  WHERE endpoint.id = given_up.endpoint_id AND given_up.kind = 'test'
)
SELECT endpoint_id FROM given_up
"""


class Outbox:
    """The messages of this database that wait to be sent."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    async def take(self, limit: int) -> list[Letter]:
        """Lease up to `limit` due messages, the oldest first."""
        now = clock.now()
        params = {"now": now, "lease_expires_at": now + timedelta(seconds=LEASE_SECONDS), "token": new_uuid()}
        async with self._pool.connection() as connection, connection.cursor(row_factory=class_row(Letter)) as cursor:
            await cursor.execute(_TAKE, {**params, "count": limit})
            return await cursor.fetchall()

    async def sent(self, letter: Letter) -> None:
        """It was taken by its topic: note that, and forget it. A test's endpoint is looked at again."""
        now = clock.now()
        await self._do(_SENT, letter, now=now, at=now.isoformat(), topic=letter.topic)

    async def later(self, letter: Letter, due_at: datetime, error: str) -> None:
        """Try it again at `due_at`."""
        await self._do(_LATER, letter, due_at=due_at, error=_kept(error))

    async def give_up(self, letter: Letter, error: str) -> bool:
        """Nobody takes it: keep it with its last error, and try no more; False when the lease was lost."""
        return await self._do(_GIVE_UP, letter, now=clock.now(), error=_kept(error)) == 1

    async def _do(self, statement: str, letter: Letter, **params: object) -> int:
        async with self._pool.connection() as connection:
            done = await connection.execute(statement, {**params, "id": letter.id, "token": letter.lease_token})
            return done.rowcount


def _kept(error: str) -> str:
    return clean(error)[:ERROR_LIMIT]
