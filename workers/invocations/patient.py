"""The ledger for those who run requests: what they have to write is written, also when the database is away for a while.

    write ----> written, or the lease is lost
     ^   |
     |   v  away
    a pause ----> away for PATIENCE_SECONDS: the error is raised, and the request given back

A model has done its part by then, and is not asked again because a database was started anew. The lease may run out
meanwhile; then whoever has taken the request over is left in peace, since every write is guarded by the lease's token. A
write whose answer was lost is done again and finds either itself undone, or the lease gone with it; at the worst a step
stands in the timeline twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import ParamSpec, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

from controlplane.core import clock
from controlplane.invocations.messages import Note
from workers.invocations.leased import Leased, Noted
from workers.invocations.ledger import Ledger
from workers.invocations.plan import Fail

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
PATIENCE_SECONDS = 900.0

AWAY = (psycopg.OperationalError, PoolTimeout, OSError)
"""What may be over in a moment; what the database says of the statement itself is not."""

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)


class PatientLedger(Ledger):
    """As `Ledger`; `pause` waits for so many seconds."""

    pause: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    async def start_storing(self, leased: Leased, sent: Noted, answered: Noted) -> bool:
        return await self._patiently(super().start_storing)(leased, sent, answered)

    async def complete(self, leased: Leased, stored: Noted, notes: Sequence[Note] = ()) -> bool:
        return await self._patiently(super().complete)(leased, stored, notes)

    async def decide_failure(self, leased: Leased, failure: Fail) -> bool:
        return await self._patiently(super().decide_failure)(leased, failure)

    async def retry(self, leased: Leased, due_at: datetime, steps: Sequence[Noted], *, is_attempt: bool = True) -> bool:
        return await self._patiently(super().retry)(leased, due_at, steps, is_attempt=is_attempt)

    async def end(self, leased: Leased, state: str, steps: Sequence[Noted], notes: Sequence[Note], failure: Fail) -> bool:
        return await self._patiently(super().end)(leased, state, steps, notes, failure)

    def _patiently(self, write: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """The write, done until the database takes it."""

        async def patient(*args: P.args, **kwargs: P.kwargs) -> T:
            until, seconds = clock.monotonic() + PATIENCE_SECONDS, FIRST_PAUSE_SECONDS
            while True:
                try:
                    return await write(*args, **kwargs)
                except AWAY as error:
                    if clock.monotonic() >= until:
                        raise
                    log.warning("what became of a request cannot be written now, trying again: %s", error)
                await self.pause(seconds)
                seconds = min(2 * seconds, LONGEST_PAUSE_SECONDS)

        return patient
