"""Redrives under way: the failure object of the earlier outcome goes, and only then is the request queued again.

    REDRIVING --claimed--> remove the failure object --gone--> QUEUED
        ^                     |
        |                     +-- the store is away, or refuses, and the request has time to live: due again later
        |                     |                                      |
        +---------------------|--------------------------------------+
                              +-- its time to live is over ---> QUEUED, where it expires: the failure object that tells
                                                                this is written over the old one

Whoever waits for the outcome looks at the output and the failure location at once and believes what appears first, hence
the order. A claim is a token, and `due_at` is its expiry: a worker that dies leaves the request due again. Removing twice
is harmless but for one case: the request was queued by somebody else, failed, and its new failure object is removed. So no
removal begins in the last MARGIN_SECONDS of its claim, which is far longer than the store's own time limits.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import psycopg
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.invocations.notices import CHANNEL
from controlplane.invocations.steps import Step
from controlplane.invocations.steps_sql import appended
from workers.invocations.store import StoreFailed

SCAN_SECONDS = 1.0
BATCH = 100
AT_ONCE = 8
"""Removals at once: a mass redrive must not take the store's threads from the answers that wait for them."""

CLAIM_SECONDS, MARGIN_SECONDS = 600.0, 300.0
AGAIN_SECONDS = 15.0
"""How long a store that is away or refuses is left alone."""

_AWAY = (psycopg.Error, PoolTimeout, OSError)
"""What the database's absence looks like."""

log = logging.getLogger(__name__)

_CLAIM = """
UPDATE invocations_asyncinvocation
SET lease_token = %(token)s, due_at = %(claim_ends_at)s
WHERE id IN (
  SELECT id FROM invocations_asyncinvocation
  WHERE state = 'redriving' AND due_at <= %(now)s ORDER BY due_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
)
RETURNING id, failure_location, expires_at
"""

_MINE = "WHERE id = ANY(%(ids)s) AND lease_token = %(token)s AND state = 'redriving'"

_QUEUE = f"""
UPDATE invocations_asyncinvocation
SET state = 'queued', due_at = %(now)s, lease_token = NULL, lease_expires_at = NULL, {appended(1)}
{_MINE}
"""  # noqa: S608 - composed of this module's constants

_LATER = f"""
UPDATE invocations_asyncinvocation SET lease_token = NULL, due_at = least(%(due_at)s, greatest(expires_at, %(now)s)) {_MINE}
"""  # noqa: S608 - composed of this module's constants


class Objects(Protocol):
    """What is asked of the store."""

    async def remove(self, location: str) -> None:
        """Remove an object, if it is there; raises StoreFailed."""
        ...


@dataclass(frozen=True)
class Redriving:
    """A claimed request and where its old failure object is."""

    id: UUID
    failure_location: str
    expires_at: datetime


@dataclass(frozen=True)
class Redriver:
    """Carries redrives through; several may run."""

    pool: AsyncConnectionPool
    store: Objects

    async def run(self) -> None:
        """Work until cancelled; a database that is away is waited for, and no request ends the loop."""
        while True:
            try:
                while await self.step() == BATCH:
                    pass
            except _AWAY as error:
                log.warning("redrives wait for the database: %s", error)
            except Exception:
                log.exception("a redrive could not be handled; it is due again when its claim is over")
            await asyncio.sleep(SCAN_SECONDS)

    async def step(self) -> int:
        """Carry one batch of requests a step on; returns how many."""
        token, now = new_uuid(), clock.now()
        claim = {"token": token, "now": now, "claim_ends_at": now + timedelta(seconds=CLAIM_SECONDS), "count": BATCH}
        async with self.pool.connection() as connection, connection.cursor(row_factory=class_row(Redriving)) as cursor:
            await cursor.execute(_CLAIM, claim)
            claimed = await cursor.fetchall()
        turns = asyncio.Semaphore(AT_ONCE)
        stop_at = clock.monotonic() + CLAIM_SECONDS - MARGIN_SECONDS
        removed = await asyncio.gather(*(self._remove(each, turns, stop_at) for each in claimed))
        done = [each.id for each, is_gone in zip(claimed, removed, strict=True) if is_gone]
        left = [each.id for each, is_gone in zip(claimed, removed, strict=True) if not is_gone]
        await self._record(token, done, left)
        return len(claimed)

    async def _remove(self, redriving: Redriving, turns: asyncio.Semaphore, stop_at: float) -> bool:
        """Remove the old failure object; whether the request may be queued now."""
        if clock.now() >= redriving.expires_at:
            return True
        async with turns:
            if clock.monotonic() >= stop_at:
                return False
            try:
                await self.store.remove(redriving.failure_location)
            except StoreFailed as error:
                log.warning("invocation %s: its old failure object cannot be removed now: %s", redriving.id, error)
                return False
        return True

    async def _record(self, token: UUID, done: Sequence[UUID], left: Sequence[UUID]) -> None:
        now = clock.now()
        async with self.pool.connection() as connection:
            if done:
                step = json.dumps([[now.isoformat(), Step.RETRIED.value, 0, "its earlier failure object is gone"]])
                await connection.execute(_QUEUE, {"ids": list(done), "token": token, "now": now, "steps": step})
                await connection.execute("SELECT pg_notify(%s, '')", [CHANNEL])
            if left:
                due_at = now + timedelta(seconds=AGAIN_SECONDS)
                await connection.execute(_LATER, {"ids": list(left), "token": token, "now": now, "due_at": due_at})
