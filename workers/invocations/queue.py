"""The queue: claims and leases. PostgreSQL is the queue; a lease is a token with an expiry on the row.

LEASE_SECONDS is far longer than the clocks of two hosts may differ; the loop that works renews it in time (see
`timetable`). What becomes of a leased request is written by the `ledger`. Connections of the pool are in autocommit, so
that one statement is one transaction and one round trip.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.invocations.line import Line, Row, Statement
from workers.invocations import statements
from workers.invocations.known_routes import Opening
from workers.invocations.leased import Leased
from workers.invocations.plan import ABANDONED_TEXT, ATTEMPTS_LIMIT, DELETED_TEXT, EXPIRED_TEXT, Fail, Kind

LEASE_SECONDS = 15.0

CLAIMING = (statements.TAKE_TURN, statements.CLAIM, statements.CLAIM_ALONE)


@dataclass(frozen=True)
class Waiting:
    """An endpoint with something queued; `is_gone` when it never will serve again."""

    endpoint_id: UUID
    is_gone: bool


class Queue:
    """The requests of this database that wait; `for_claims` knows the statements of CLAIMING."""

    def __init__(self, pool: AsyncConnectionPool, for_claims: Line) -> None:
        self._pool = pool
        self._for_claims = for_claims
        self._unheard: dict[UUID, float] = {}

    async def waiting(self) -> list[Waiting]:
        """Every endpoint that has something queued."""
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(statements.WAITING, prepare=True)).fetchall()
        return [Waiting(endpoint_id, phase in (None, "Deleting")) for endpoint_id, phase in rows]

    async def claim(self, endpoint_id: UUID, limit: int, known: int = 0, shunned: Sequence[UUID] = ()) -> list[Leased]:
        """Lease up to `limit` due requests of an endpoint, each with an instance that has room for it: one round trip.

        Claims of one endpoint take turns, so that two dispatchers never fill one slot twice. `known` is the revision of
        the routing document that the caller has; another one comes along. `shunned` instances are taken only where there
        is no other, the last of them last.
        """
        params = {"endpoint_id": endpoint_id, "count": limit, "known": known, "shunned": shunned}
        return [Leased._make(row) for row in await self._ask(statements.CLAIM, params)]

    def ask_alone(self, endpoint_id: UUID, request_id: UUID, at: Opening, known: int) -> "asyncio.Future[list[Row]]":
        """Lease this request to run at this instance, if it is all that is due and the instance runs nothing.

        `known` is the revision of the routing document that has the instance; by any other nothing is leased. What is
        leased is a row of the fields of `Leased`.
        """
        params = {"endpoint_id": endpoint_id, "id": request_id, "known": known}
        params |= {"instance_id": at.instance_id, "variant": at.place.variant.name}
        return self._ask(statements.CLAIM_ALONE, params)

    def _ask(self, statement: Statement, params: dict[str, Any]) -> "asyncio.Future[list[Row]]":
        """Claim by this statement when it is this claim's turn."""
        params |= _lease()
        asked = self._for_claims.ask((statements.TAKE_TURN, params), (statement, params))
        asked.add_done_callback(partial(self._ended, params["token"], clock.monotonic()))
        return asked

    def _ended(self, token: UUID, asked_at: float, asked: "asyncio.Future[list[Row]]") -> None:
        """Remember the token of a claim that may have been done although its answer is not heard."""
        if asked.cancelled() or asked.exception() is not None:
            self._unheard[token] = asked_at

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

    async def _claim_ended(self, statement: str, failure: Fail, limit: int, **params: Any) -> list[Leased]:
        params |= {**_lease(), "text": failure.text, "kind": failure.kind.value, "count": limit}
        asked_at = clock.monotonic()
        try:
            async with self._pool.connection() as connection:
                rows = await (await connection.execute(statement, params)).fetchall()
        except BaseException:
            self._unheard[params["token"]] = asked_at
            raise
        return [Leased(*row) for row in rows]

    @property
    def unheard(self) -> list[UUID]:
        """The tokens of claims whose answers were lost, as long as their leases may be good."""
        since = clock.monotonic() - LEASE_SECONDS
        self._unheard = {token: at for token, at in self._unheard.items() if at > since}
        return list(self._unheard)

    async def reclaim(self, limit: int) -> None:
        """Put requests whose lease ran out back into the queue; after the last attempt their failure is decided."""
        now = clock.now()
        params = {"now": now, "at": now.isoformat(), "limit": ATTEMPTS_LIMIT, "count": limit}
        params |= {"text": ABANDONED_TEXT, "kind": Kind.ABANDONED.value}
        async with self._pool.connection() as connection:
            await connection.execute(statements.RECLAIM, params)

    async def beat(self, process_id: str) -> datetime:
        """Say that this worker's loop makes progress; returns the database's time."""
        async with self._pool.connection() as connection:
            [[now]] = await (await connection.execute(statements.BEAT, [process_id])).fetchall()
        told: datetime = now
        return told


def _lease() -> dict[str, Any]:
    """The parameters of a claim: now, and its lease."""
    now = clock.now()
    return {"now": now, "at": now.isoformat(), "token": new_uuid(), "lease_expires_at": lease_end()}


def lease_end() -> datetime:
    """When a lease that begins now ends, unless it is renewed."""
    return clock.now() + timedelta(seconds=LEASE_SECONDS)
