"""The queue: claims and leases. PostgreSQL is the queue; a lease is a token with an expiry on the row.

LEASE_SECONDS is far longer than the clocks of two hosts may differ; the loop that works renews it every RENEW_SECONDS.
What becomes of a leased request is written by the `ledger`. Connections of the pool are in autocommit, so that one
statement is one transaction and one round trip.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from workers.invocations import statements
from workers.invocations.leased import Leased
from workers.invocations.plan import ABANDONED_TEXT, ATTEMPTS_LIMIT, DELETED_TEXT, EXPIRED_TEXT, Fail, Kind

LEASE_SECONDS = 15.0
RENEW_SECONDS = 4.0


@dataclass(frozen=True)
class Waiting:
    """An endpoint with something queued; `is_gone` when it never will serve again."""

    endpoint_id: UUID
    is_gone: bool


class Queue:
    """The requests of this database that wait; `for_claims` has the connection for `claim`, where it has its own."""

    def __init__(self, pool: AsyncConnectionPool, for_claims: AsyncConnectionPool | None = None) -> None:
        self._pool = pool
        self._for_claims = for_claims or pool

    async def waiting(self) -> list[Waiting]:
        """Every endpoint that has something queued."""
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(statements.WAITING, prepare=True)).fetchall()
        return [Waiting(endpoint_id, phase in (None, "Deleting")) for endpoint_id, phase in rows]

    async def claim(self, endpoint_id: UUID, limit: int, known: int = 0) -> list[Leased]:
        """Lease up to `limit` due requests of an endpoint, each with an instance that has room for it: one round trip.

        Claims of one endpoint take turns, so that two dispatchers never fill one slot twice. `known` is the revision of
        the routing document that the caller has; another one comes along.
        """
        params = {**_lease(), "endpoint_id": endpoint_id, "count": limit, "known": known}
        async with self._for_claims.connection() as connection:
            async with connection.pipeline():
                await connection.execute(statements.TAKE_TURN, params, prepare=True)
                done = await connection.execute(statements.CLAIM, params, prepare=True, binary=True)
            return [Leased._make(row) for row in await done.fetchall()]

    async def claim_expired(self, limit: int) -> list[Leased]:
        """Lease requests whose time in the queue ran out, to tell their failure."""
        return await self._claim_ended(statements.CLAIM_EXPIRED, Fail(EXPIRED_TEXT, Kind.EXPIRED), limit)

    async def claim_of_deleted(self, endpoint_id: UUID, limit: int) -> list[Leased]:
        """Lease requests of an endpoint that is gone, to tell their failure."""
        failure = Fail(DELETED_TEXT, Kind.ENDPOINT_DELETED)
        return await self._claim_ended(statements.CLAIM_OF_ENDPOINT, failure, limit, endpoint_id=endpoint_id)

    async def claim_decided(self, limit: int) -> list[Leased]:
        """Lease requests whose failure was decided and not told yet."""
        return await self._claim_ended(statements.CLAIM_DECIDED, Fail(ABANDONED_TEXT, Kind.ABANDONED), limit)

    async def _claim_ended(self, statement: str, failure: Fail, limit: int, **params: object) -> list[Leased]:
        async with self._pool.connection() as connection:
            params |= {"text": failure.text, "kind": failure.kind.value, "count": limit}
            return await _leased(connection, statement, params)

    async def reclaim(self, limit: int) -> None:
        """Put requests whose lease ran out back into the queue; after the last attempt their failure is decided."""
        now = clock.now()
        params = {"now": now, "at": now.isoformat(), "limit": ATTEMPTS_LIMIT, "count": limit}
        params |= {"text": ABANDONED_TEXT, "kind": Kind.ABANDONED.value}
        async with self._pool.connection() as connection:
            await connection.execute(statements.RECLAIM, params)

    async def beat(self, process_id: str) -> None:
        """Say that this worker's loop makes progress."""
        async with self._pool.connection() as connection:
            await connection.execute(statements.BEAT, [process_id])


async def _leased(connection: AsyncConnection, statement: str, params: dict[str, Any]) -> list[Leased]:
    done = await connection.execute(statement, {**params, **_lease()})
    return [Leased(*row) for row in await done.fetchall()]


def _lease() -> dict[str, Any]:
    """The parameters of a claim: now, and its lease."""
    now = clock.now()
    return {"now": now, "at": now.isoformat(), "token": new_uuid(), "lease_expires_at": lease_end()}


def lease_end() -> datetime:
    """When a lease that begins now ends, unless it is renewed."""
    return clock.now() + timedelta(seconds=LEASE_SECONDS)
