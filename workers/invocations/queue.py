"""The queue: claims, leases and outcomes. PostgreSQL is the queue; a lease is a token with an expiry on the row.

LEASE_SECONDS is far longer than the clocks of two hosts may differ; the loop that works renews it every RENEW_SECONDS.
Connections of the pool are in autocommit, so that one statement is one transaction and one round trip.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor, DataError, IntegrityError, InternalError
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.invocations.messages import Note
from controlplane.invocations.steps import Step, clean
from controlplane.routing.table import Route, decode
from workers.invocations import late, statements
from workers.invocations.plan import ABANDONED_TEXT, ATTEMPTS_LIMIT, DELETED_TEXT, EXPIRED_TEXT, Fail, Kind
from workers.invocations.slots import free_slots
from workers.invocations.together import Together

LEASE_SECONDS = 15.0
RENEW_SECONDS = 4.0
WRITE_BATCH = 100
PAYLOAD_BATCH = 32
"""Of payloads up to 128,000 bytes."""

REFUSALS = (DataError, IntegrityError, InternalError)
"""What the database says of a row that it cannot take."""


@dataclass(frozen=True)
class Leased:
    """A claimed invocation and what is needed to run it; `failure_kind` is set when only its failure is to be told."""

    id: UUID
    account_id: str
    endpoint_id: UUID
    endpoint_name: str
    variant_name: str
    content_type: str
    accept: str
    custom_attributes: str
    inference_id: str
    input_location: str
    attempts: int
    accepted_at: datetime
    expires_at: datetime
    timeout_seconds: int
    output_location: str
    failure_location: str
    delivery: dict[str, Any]
    is_storing: bool
    outcome_text: str
    failure_kind: str
    instance_id: UUID | None
    lease_token: UUID
    body: bytes | None = None
    """The inline payload, where the claim brought it along."""

    @property
    def failure(self) -> Fail | None:
        """The failure that was decided, if one was."""
        return Fail(self.outcome_text, Kind(self.failure_kind)) if self.failure_kind else None

    def step(self, step: Step, detail: str = "", at: datetime | None = None) -> "Noted":
        """A step of this request's timeline, now unless `at` says otherwise."""
        return [(at or clock.now()).isoformat(), step.value, self.attempts, clean(detail)]


Noted = list[object]
"""A step as it is kept."""


@dataclass(frozen=True)
class Made:
    """What became of a leased invocation: the steps to append to its timeline, and the messages that tell of it."""

    leased: Leased
    steps: tuple[Noted, ...]
    notes: tuple[Note, ...] = ()


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
        self._ending: set[UUID] = set()
        self._payloads = Together(self._read_payloads, limit=PAYLOAD_BATCH, refusals=REFUSALS)
        self._intents = Together(self._start_storing, limit=WRITE_BATCH, refusals=REFUSALS)
        self._completions = Together(self._complete, limit=WRITE_BATCH, refusals=REFUSALS)

    async def waiting(self) -> list[Waiting]:
        """Every endpoint that has something queued."""
        async with self._pool.connection() as connection:
            rows = await (await connection.execute(statements.WAITING)).fetchall()
        return [
            Waiting(endpoint_id, decode(document) if document else None, phase in (None, "Deleting"))
            for endpoint_id, phase, document in rows
        ]

    async def claim(self, waiting: Waiting, limit: int) -> list[Leased]:
        """Lease up to `limit` due invocations of an endpoint, each with an instance that has room for it.

        Claims of one endpoint take turns, so that two dispatchers never fill one slot twice.
        """
        route = waiting.route
        if route is None:
            return []
        async with self._pool.connection() as connection:
            slots = free_slots(route, await _begin_claim(connection, waiting.endpoint_id))[:limit]
            if not slots:
                await connection.rollback()
                return []
            names = {UUID(target.instance_id): variant.name for variant in route.variants for target in variant.targets}
            params = {"endpoint_id": waiting.endpoint_id, "instances": slots, "count": len(slots)}
            params["variants"] = [names[slot] for slot in slots]
            return await _leased(connection, f"{statements.CLAIM}; COMMIT", params, AsyncClientCursor)

    async def claim_expired(self, limit: int) -> list[Leased]:
        """Lease invocations whose time in the queue ran out, to tell their failure."""
        return await self._claim_ended(statements.CLAIM_EXPIRED, Fail(EXPIRED_TEXT, Kind.EXPIRED), limit)

    async def claim_of_deleted(self, endpoint_id: UUID, limit: int) -> list[Leased]:
        """Lease invocations of an endpoint that is gone, to tell their failure."""
        failure = Fail(DELETED_TEXT, Kind.ENDPOINT_DELETED)
        return await self._claim_ended(statements.CLAIM_OF_ENDPOINT, failure, limit, endpoint_id=endpoint_id)

    async def claim_decided(self, limit: int) -> list[Leased]:
        """Lease invocations whose failure was decided and not told yet."""
        return await self._claim_ended(statements.CLAIM_DECIDED, Fail(ABANDONED_TEXT, Kind.ABANDONED), limit)

    async def _claim_ended(self, statement: str, failure: Fail, limit: int, **params: object) -> list[Leased]:
        async with self._pool.connection() as connection:
            params |= {"text": failure.text, "kind": failure.kind.value, "count": limit}
            return await _leased(connection, statement, params)

    async def reclaim(self, limit: int) -> None:
        """Put invocations whose lease ran out back into the queue; after the last attempt their failure is decided."""
        now = clock.now()
        params = {"now": now, "at": now.isoformat(), "limit": ATTEMPTS_LIMIT, "count": limit}
        params |= {"text": ABANDONED_TEXT, "kind": Kind.ABANDONED.value}
        async with self._pool.connection() as connection:
            await connection.execute(statements.RECLAIM, params)

    async def renew(self, held: Sequence[Leased]) -> set[tuple[UUID, UUID]]:
        """Extend these leases; returns those that were still held, as id and token: one request may be leased anew."""
        async with self._pool.connection() as connection:
            params = [[each.id for each in held], [each.lease_token for each in held], _lease_end()]
            return {(row[0], row[1]) for row in await (await connection.execute(statements.RENEW, params)).fetchall()}

    def is_ending(self, leased: Leased) -> bool:
        """Whether its success is being recorded at this moment, with which its lease ends."""
        return leased.id in self._ending

    async def payload(self, leased: Leased) -> bytes:
        """The inline body."""
        return await self._payloads(leased)

    async def start_storing(self, leased: Leased, sent: Noted, answered: Noted) -> bool:
        """Commit the intent to write the output object, and free the instance's slot; False when the lease is lost."""
        return await self._intents(Made(leased, (sent, answered)))

    async def tell_dropped(self, leased: Leased) -> None:
        """Tell that an answer came too late, if it did: the lease may be lost to another worker as well."""
        await late.tell_dropped(self._pool, leased)

    async def decide_failure(self, leased: Leased, failure: Fail) -> bool:
        """Commit the failure before its object is written; False when the lease is lost."""
        return await self._update(statements.DECIDE_FAILURE, leased, text=failure.text, kind=failure.kind.value)

    async def retry(self, leased: Leased, due_at: datetime, steps: Sequence[Noted], *, is_attempt: bool = True) -> bool:
        """Put the invocation back into the queue, counted as an attempt or not; False when the lease is lost."""
        statement = statements.RETRY.format(appended=statements.appended(len(steps)))
        params = {"due_at": due_at, "uncounted": int(not is_attempt), "steps": json.dumps(steps)}
        return await self._update(statement, leased, **params)

    async def end(
        self,
        leased: Leased,
        state: str,
        steps: Sequence[Noted],
        notes: Sequence[Note] = (),
        failure: Fail | None = None,
    ) -> bool:
        """Record the one outcome with its messages, and drop a completed one's payload; False when the lease is lost."""
        if state == "completed" and len(steps) == 1:
            self._ending.add(leased.id)
            try:
                return await self._completions(Made(leased, tuple(steps), tuple(notes)))
            finally:
                self._ending.discard(leased.id)
        statement = statements.END.format(appended=statements.appended(len(steps)))
        params = {
            "state": state,
            "now": clock.now(),
            "text": failure.text if failure else "",
            "kind": failure.kind.value if failure else "",
            "steps": json.dumps(steps),
            "topics": [note.topic for note in notes],
            "messages": [note.message for note in notes],
        }
        return await self._update(statement, leased, **params)

    async def beat(self, process_id: str) -> None:
        """Say that this worker's loop makes progress."""
        async with self._pool.connection() as connection:
            await connection.execute(statements.BEAT, [process_id])

    async def _read_payloads(self, asked: Sequence[Leased]) -> list[bytes]:
        async with self._pool.connection() as connection:
            found = await (await connection.execute(statements.PAYLOADS, [[each.id for each in asked]])).fetchall()
        bodies: dict[UUID, bytes] = dict(found)
        return [bytes(bodies.get(each.id, b"")) for each in asked]

    async def _start_storing(self, made: Sequence["Made"]) -> list[bool]:
        return await self._guarded(statements.START_STORING, made, {})

    async def _complete(self, made: Sequence["Made"]) -> list[bool]:
        notes = [(each.leased.id, note.topic, note.message) for each in made for note in each.notes]
        told, topics, messages = ([note[place] for note in notes] for place in range(3))
        more = {"now": clock.now(), "told": told, "topics": topics, "messages": messages}
        return await self._guarded(statements.COMPLETE, made, more)

    async def _guarded(self, statement: str, made: Sequence["Made"], more: dict[str, Any]) -> list[bool]:
        """Do it to those whose lease is still held; tells of each whether it was."""
        leases = [(each.leased.id, each.leased.lease_token) for each in made]
        params = {"ids": [lease[0] for lease in leases], "tokens": [lease[1] for lease in leases], **more}
        params["steps"] = [json.dumps(each.steps) for each in made]
        async with self._pool.connection() as connection:
            done = {(row[0], row[1]) for row in await (await connection.execute(statement, params)).fetchall()}
        return [lease in done for lease in leases]

    async def _update(self, statement: str, leased: Leased, **params: object) -> bool:
        async with self._pool.connection() as connection:
            done = await connection.execute(statement, {**params, "id": leased.id, "token": leased.lease_token})
            return done.rowcount == 1


async def _begin_claim(connection: AsyncConnection, endpoint_id: UUID) -> dict[UUID, int]:
    """Begin a transaction in which nobody else claims of this endpoint; how many run at each of its instances."""
    async with AsyncClientCursor(connection) as cursor:
        await cursor.execute(statements.BEGIN_CLAIM, {"name": str(endpoint_id), "endpoint_id": endpoint_id})
        while cursor.nextset():
            continue
        return dict(await cursor.fetchall())


async def _leased(
    connection: AsyncConnection, statement: str, params: dict[str, Any], kind: type[AsyncCursor[Any]] = AsyncCursor
) -> list[Leased]:
    now = clock.now()
    lease = {"now": now, "at": now.isoformat(), "token": new_uuid(), "lease_expires_at": _lease_end()}
    async with kind(connection, row_factory=class_row(Leased)) as cursor:
        await cursor.execute(statement, {**params, **lease})
        return await cursor.fetchall()


def _lease_end() -> datetime:
    return clock.now() + timedelta(seconds=LEASE_SECONDS)
