"""What became of leased requests, written down. Every write is guarded by the lease's token: False when it is lost.

    its answer is about to be stored, it is completed    most requests: many in one statement (`Together`)
    retried, failed, expired, cancelled                  a statement for each

Connections of the pool are in autocommit, so that one statement is one transaction and one round trip.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from psycopg import DataError, IntegrityError, InternalError
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.invocations.line import Line
from controlplane.invocations.messages import Note
from controlplane.invocations.steps_sql import appended
from workers.invocations import late
from workers.invocations import outcome_statements as statements
from workers.invocations.leased import Leased, Made, Noted
from workers.invocations.plan import Fail
from workers.invocations.queue import lease_end
from workers.invocations.together import Together

WRITE_BATCH = 200
GATHER_SECONDS = 0.010

REFUSALS = (DataError, IntegrityError, InternalError)
"""What the database says of a row that it cannot take."""

MANY = (statements.MADE, statements.RENEW)

_dumps = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


class Ledger:
    """The outcomes of this database's requests, as one worker writes them; `for_many` knows the statements of MANY."""

    def __init__(self, pool: AsyncConnectionPool, for_many: Line) -> None:
        self._pool = pool
        self._for_many = for_many
        self._ending: set[UUID] = set()
        self._together = Together(self._write, limit=WRITE_BATCH, refusals=REFUSALS, gather_seconds=GATHER_SECONDS)

    def is_ending(self, leased: Leased) -> bool:
        """Whether its success is being recorded at this moment, with which its lease ends."""
        return leased.id in self._ending

    async def renew(self, held: Sequence[Leased]) -> set[tuple[UUID, UUID]]:
        """Extend these leases; returns those that were still held, as id and token: one request may be leased anew."""
        params = {**_leases(held), "lease_expires_at": lease_end()}
        return {(row[0], row[1]) for row in await self._for_many.ask((statements.RENEW, params))}

    async def start_storing(self, leased: Leased, sent: Noted, answered: Noted) -> bool:
        """Commit the intent to write the output object, and free the instance's slot."""
        return await self._together(Made(leased, (sent, answered), has_ended=False))

    async def complete(self, leased: Leased, stored: Noted, notes: Sequence[Note] = ()) -> bool:
        """Record the success with its messages, and drop the payload."""
        self._ending.add(leased.id)
        try:
            return await self._together(Made(leased, (stored,), has_ended=True, notes=notes))
        finally:
            self._ending.discard(leased.id)

    async def tell_dropped(self, leased: Leased) -> None:
        """Tell that an answer came too late, if it did: the lease may be lost to another worker as well."""
        await late.tell_dropped(self._pool, leased)

    async def decide_failure(self, leased: Leased, failure: Fail) -> bool:
        """Commit the failure before its object is written."""
        return await self._update(statements.DECIDE_FAILURE, leased, text=failure.text, kind=failure.kind.value)

    async def retry(self, leased: Leased, due_at: datetime, steps: Sequence[Noted], *, is_attempt: bool = True) -> bool:
        """Put the request back into the queue, counted as an attempt or not."""
        statement = statements.RETRY.format(appended=appended(len(steps)))
        params = {"due_at": due_at, "uncounted": int(not is_attempt), "steps": _dumps(steps)}
        return await self._update(statement, leased, **params)

    async def end(self, leased: Leased, state: str, steps: Sequence[Noted], notes: Sequence[Note], failure: Fail) -> bool:
        """Record the one outcome, which is no success, with its messages."""
        params = {
            "state": state,
            "now": clock.now(),
            "text": failure.text,
            "kind": failure.kind.value,
            "steps": _dumps(steps),
            "topics": [note.topic for note in notes],
            "messages": [note.message for note in notes],
        }
        return await self._update(statements.END.format(appended=appended(len(steps))), leased, **params)

    async def _write(self, made: Sequence[Made]) -> list[bool]:
        """Write it of those whose lease is still held; tells of each whether it was."""
        notes = [(each.leased.id, note.topic, note.message) for each in made for note in each.notes]
        params = {
            **_leases([each.leased for each in made]),
            "steps": [_dumps(each.steps) for each in made],
            "ended": [each.has_ended for each in made],
            "now": clock.now(),
            "told": [note[0] for note in notes],
            "topics": [note[1] for note in notes],
            "messages": [note[2] for note in notes],
        }
        written = set(await self._for_many.ask((statements.MADE, params)))
        return [(each.leased.id, each.leased.lease_token) in written for each in made]

    async def _update(self, statement: str, leased: Leased, **params: object) -> bool:
        async with self._pool.connection() as connection:
            done = await connection.execute(statement, {**params, "id": leased.id, "token": leased.lease_token})
            return done.rowcount == 1


def _leases(held: Sequence[Leased]) -> dict[str, object]:
    return {"ids": [each.id for each in held], "tokens": [each.lease_token for each in held]}
