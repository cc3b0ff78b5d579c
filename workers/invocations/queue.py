"""The queue's SQL. PostgreSQL is the queue; a lease is a token with an expiry on the row, and every write is guarded by it.

LEASE_SECONDS is far longer than the clocks of two hosts may differ; the loop that works renews it every RENEW_SECONDS.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.routing.table import Route, VariantRoute, decode
from workers.invocations.plan import ABANDONED_TEXT, ATTEMPTS_LIMIT, DELETED_TEXT, EXPIRED_TEXT

LEASE_SECONDS = 15.0
RENEW_SECONDS = 4.0
CHORE_BATCH = 200


@dataclass(frozen=True)
class Leased:
    """A claimed invocation and what is needed to run it; `outcome_text` is set when only its failure is to be told."""

    id: UUID
    endpoint_name: str
    content_type: str
    accept: str
    custom_attributes: str
    inference_id: str
    attempts: int
    accepted_at: datetime
    expires_at: datetime
    timeout_seconds: int
    output_location: str
    failure_location: str
    is_storing: bool
    outcome_text: str
    instance_id: UUID | None
    lease_token: UUID


_COLUMNS = """q.id, q.endpoint_name, q.content_type, q.accept, q.custom_attributes, q.inference_id, q.attempts,
    q.accepted_at, q.expires_at, q.timeout_seconds, q.output_location, q.failure_location, q.is_storing, q.outcome_text,
    q.instance_id, q.lease_token"""

# One step of the index for each endpoint that has something queued, however long its queue is.
_WAITING = """
WITH RECURSIVE waiting AS (
  (SELECT endpoint_id FROM invocations_asyncinvocation WHERE state = 'queued' ORDER BY endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT endpoint_id FROM invocations_asyncinvocation
          WHERE state = 'queued' AND endpoint_id > waiting.endpoint_id ORDER BY endpoint_id LIMIT 1)
  FROM waiting WHERE waiting.endpoint_id IS NOT NULL
)
SELECT waiting.endpoint_id, endpoint.phase, snapshot.document
FROM waiting
LEFT JOIN endpoints_endpoint endpoint ON endpoint.id = waiting.endpoint_id
LEFT JOIN routing_routingsnapshot snapshot ON snapshot.endpoint_id = waiting.endpoint_id
WHERE waiting.endpoint_id IS NOT NULL
"""

_RUNNING = """
SELECT instance_id, count(*) FROM invocations_asyncinvocation
WHERE state = 'running' AND endpoint_id = %s AND instance_id IS NOT NULL GROUP BY instance_id
"""

_CLAIM = f"""
WITH due AS (
  SELECT id, row_number() OVER (ORDER BY due_at, accepted_at) AS place FROM (
    SELECT id, due_at, accepted_at FROM invocations_asyncinvocation
    WHERE endpoint_id = %(endpoint_id)s AND state = 'queued' AND due_at <= %(now)s AND expires_at > %(now)s
      AND outcome_text = ''
    ORDER BY due_at, accepted_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
  ) AS locked
), slot AS (
  SELECT instance_id, place FROM unnest(%(instances)s::uuid[]) WITH ORDINALITY AS slot (instance_id, place)
)
UPDATE invocations_asyncinvocation q
SET state = 'running', attempts = attempts + 1, instance_id = slot.instance_id, lease_token = %(token)s,
    lease_expires_at = %(lease_expires_at)s
FROM due JOIN slot USING (place) WHERE q.id = due.id
RETURNING {_COLUMNS}
"""  # noqa: S608 - composed of this module's constants

_CLAIM_ENDED = f"""
UPDATE invocations_asyncinvocation q
SET state = 'running', attempts = attempts + 1, instance_id = NULL, lease_token = %(token)s,
    lease_expires_at = %(lease_expires_at)s,
    outcome_text = CASE WHEN outcome_text = '' THEN %(text)s ELSE outcome_text END
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'queued' AND {{which}} ORDER BY expires_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
RETURNING {_COLUMNS}
"""  # noqa: S608 - composed of this module's constants
_EXPIRED = "expires_at <= %(now)s"
_OF_ENDPOINT = "endpoint_id = %(endpoint_id)s"
_DECIDED = "outcome_text <> '' AND due_at <= %(now)s"

_RECLAIM = """
UPDATE invocations_asyncinvocation
SET state = 'queued', due_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
    outcome_text = CASE WHEN outcome_text = '' AND attempts >= %(limit)s THEN %(text)s ELSE outcome_text END
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'running' AND lease_expires_at <= %(now)s LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
"""

_RENEW = """
UPDATE invocations_asyncinvocation q SET lease_expires_at = %s
FROM unnest(%s::uuid[], %s::uuid[]) AS held (id, token)
WHERE q.id = held.id AND q.lease_token = held.token AND q.state = 'running' RETURNING q.id
"""

_BEAT = """
INSERT INTO observability_heartbeat (role, process_id, seen_at) VALUES ('worker', %s, clock_timestamp())
ON CONFLICT (role, process_id) DO UPDATE SET seen_at = excluded.seen_at
"""


@dataclass(frozen=True)
class Waiting:
    """An endpoint with something queued; no route when it does not serve, `is_gone` when it never will again."""

    endpoint_id: UUID
    route: Route | None
    is_gone: bool


class Queue:
    """The invocations of this database."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    async def waiting(self) -> list[Waiting]:
        """Every endpoint that has something queued."""
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(_WAITING)).fetchall()
        return [
            Waiting(endpoint_id, decode(document) if document else None, phase in (None, "Deleting"))
            for endpoint_id, phase, document in rows
        ]

    async def claim(self, waiting: Waiting, free_slots: "FreeSlots", limit: int) -> list[Leased]:
        """Lease up to `limit` due invocations of an endpoint, each with an instance that has room for it.

        Claims of one endpoint take turns, so that two dispatchers never fill one slot twice.
        """
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [str(waiting.endpoint_id)])
            running: dict[UUID, int] = dict(await (await connection.execute(_RUNNING, [waiting.endpoint_id])).fetchall())
            slots = free_slots(waiting, running)[:limit]
            if not slots:
                return []
            params = {"endpoint_id": waiting.endpoint_id, "instances": slots, "count": len(slots)}
            return await _leased(connection, _CLAIM, params)

    async def claim_expired(self) -> list[Leased]:
        """Lease invocations whose time in the queue ran out, to tell their failure."""
        return await self._claim_ended(_EXPIRED, EXPIRED_TEXT, {})

    async def claim_of_deleted(self, endpoint_id: UUID) -> list[Leased]:
        """Lease invocations of an endpoint that is gone, to tell their failure."""
        return await self._claim_ended(_OF_ENDPOINT, DELETED_TEXT, {"endpoint_id": endpoint_id})

    async def claim_decided(self) -> list[Leased]:
        """Lease invocations whose failure was decided and not told yet."""
        return await self._claim_ended(_DECIDED, "", {})

    async def _claim_ended(self, which: str, text: str, params: dict[str, Any]) -> list[Leased]:
        async with self._pool.connection() as connection:
            statement = _CLAIM_ENDED.format(which=which)
            return await _leased(connection, statement, {**params, "text": text, "count": CHORE_BATCH})

    async def reclaim(self) -> None:
        """Put invocations whose lease ran out back into the queue; after the last attempt their failure is decided."""
        params = {"now": clock.now(), "limit": ATTEMPTS_LIMIT, "text": ABANDONED_TEXT, "count": CHORE_BATCH}
        async with self._pool.connection() as connection:
            await connection.execute(_RECLAIM, params)

    async def renew(self, held: Sequence[Leased]) -> set[UUID]:
        """Extend these leases; returns the ids of those that were still held."""
        async with self._pool.connection() as connection:
            params = [_lease_end(), [each.id for each in held], [each.lease_token for each in held]]
            return {row[0] for row in await (await connection.execute(_RENEW, params)).fetchall()}

    async def payload(self, leased: Leased) -> bytes:
        """The inline body."""
        statement = "SELECT body FROM invocations_asyncpayload WHERE invocation_id = %s"
        async with self._pool.connection() as connection:
            row = await (await connection.execute(statement, [leased.id])).fetchone()
        return bytes(row[0]) if row else b""

    async def start_storing(self, leased: Leased) -> bool:
        """Commit the intent to write the output object; False when the lease is lost."""
        return await self._update(leased, "is_storing = true")

    async def decide_failure(self, leased: Leased, text: str) -> bool:
        """Commit the failure's text before its object is written; False when the lease is lost."""
        return await self._update(leased, "outcome_text = %(text)s", text=text)

    async def retry(self, leased: Leased, due_at: datetime, *, is_attempt: bool = True) -> bool:
        """Put the invocation back into the queue, counted as an attempt or not; False when the lease is lost."""
        changes = (
            "state = 'queued', due_at = %(due_at)s, instance_id = NULL, lease_token = NULL, lease_expires_at = NULL, "
            "attempts = attempts - %(uncounted)s"
        )
        return await self._update(leased, changes, due_at=due_at, uncounted=int(not is_attempt))

    async def end(self, leased: Leased, state: str) -> bool:
        """Record the one outcome and drop the payload; False when the lease is lost."""
        changes = "state = %(state)s, ended_at = %(now)s, lease_token = NULL, lease_expires_at = NULL"
        async with self._pool.connection() as connection, connection.transaction():
            is_ended = await self._guarded(connection, leased, changes, state=state, now=clock.now())
            if is_ended:
                await connection.execute("DELETE FROM invocations_asyncpayload WHERE invocation_id = %s", [leased.id])
            return is_ended

    async def beat(self, process_id: str) -> None:
        """Say that this worker's loop makes progress."""
        async with self._pool.connection() as connection:
            await connection.execute(_BEAT, [process_id])

    async def _update(self, leased: Leased, changes: str, **params: object) -> bool:
        async with self._pool.connection() as connection:
            return await self._guarded(connection, leased, changes, **params)

    @staticmethod
    async def _guarded(connection: AsyncConnection, leased: Leased, changes: str, **params: object) -> bool:
        statement = (
            f"UPDATE invocations_asyncinvocation SET {changes} "  # noqa: S608 - constants of this class
            "WHERE id = %(id)s AND lease_token = %(token)s AND state = 'running'"
        )
        done = await connection.execute(statement, {**params, "id": leased.id, "token": leased.lease_token})
        return done.rowcount == 1


class FreeSlots:
    """How many more invocations each instance of an endpoint may take."""

    DEFAULT_CONCURRENCY = 4
    """Calls at once on each instance where MaxConcurrentInvocationsPerInstance is not given."""

    def __call__(self, waiting: Waiting, running: dict[UUID, int]) -> list[UUID]:
        """One entry for each free slot, emptiest instances first, so that work spreads."""
        route = waiting.route
        if route is None or not route.is_serving:
            return []
        cap = route.async_inference.max_concurrent if route.async_inference else None
        cap = cap or self.DEFAULT_CONCURRENCY
        taking = [variant for variant in route.variants if variant.share > 0]
        ids = [UUID(target.instance_id) for variant in taking for target in variant.open_targets]
        levels = sorted((level, place, key) for place, key in enumerate(ids) for level in range(running.get(key, 0), cap))
        slots = [key for _, _, key in levels]
        if all(variant.share == 1 for variant in taking):
            return slots
        return _by_share(slots, taking)


def _by_share(slots: list[UUID], variants: Sequence[VariantRoute]) -> list[UUID]:
    """The slots in a random order in which each revision comes first as often as its share of the calls says.

    A weighted shuffle: the smallest of exponential draws with these rates (Efraimidis and Spirakis 2006).
    """
    rates = {
        UUID(target.instance_id): variant.share / len(variant.open_targets)
        for variant in variants
        for target in variant.open_targets
    }
    return sorted(slots, key=lambda slot: random.expovariate(rates[slot]))


async def _leased(connection: AsyncConnection, statement: str, params: dict[str, Any]) -> list[Leased]:
    lease = {"now": clock.now(), "token": new_uuid(), "lease_expires_at": _lease_end()}
    async with connection.cursor(row_factory=class_row(Leased)) as cursor:
        await cursor.execute(statement, {**params, **lease})
        return await cursor.fetchall()


def _lease_end() -> datetime:
    return clock.now() + timedelta(seconds=LEASE_SECONDS)
