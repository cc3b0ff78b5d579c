"""Accepting asynchronous invocations: plain SQL, durable before the answer, commits shared.

Each caller waits for the transaction that holds its rows; one writer takes everything that has gathered meanwhile into a
single transaction, so that N concurrent callers cost one commit and not N. No Django here: the gateway runs this.

    stored               its callers go on
    database away        tried again until the callers give up; the statement stores each id once, however often it runs,
                         so a commit whose answer was lost is found and not doubled
    refused              tried row by row, so that one bad row fails alone
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core.errors import ServiceUnavailable
from controlplane.invocations import columns
from controlplane.invocations.arrays import Array, understand

CHANNEL = "headrace_async"
"""Its notifications name the endpoint (its id) at which something was queued; blank means any."""

CANCELLED_NOTICE = "cancelled"
"""The payload of a notification after which workers look for leases that they have lost."""

BATCH = 200
WRITERS = 2
WAITING_LIMIT = 1000
"""Requests that may wait for a writer; more are refused at once. Their bodies take 128 MB at most."""
RETRY_SECONDS = 0.2
WAIT_SECONDS = 5.0
"""How long a caller waits for the database before it is told to come back."""

_DATABASE_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, OSError)

log = logging.getLogger(__name__)

_INSERT = """
WITH row AS (
  SELECT row.* FROM unnest(
    %s::uuid[], %s::varchar[], %s::uuid[], %s::varchar[], %s::varchar[], %s::varchar[], %s::varchar[], %s::varchar[],
    %s::timestamptz[], %s::timestamptz[], %s::int[], %s::varchar[], %s::varchar[], %s::varchar[], %s::jsonb[],
    %s::bytea[]
  ) AS row (id, account_id, endpoint_id, endpoint_name, inference_id, content_type, accept, custom_attributes,
            accepted_at, expires_at, timeout_seconds, output_location, failure_location, input_location, delivery, body)
  JOIN endpoints_endpoint endpoint ON endpoint.id = row.endpoint_id AND endpoint.phase NOT IN ('Deleting', 'Failed')
), invocation AS (
  INSERT INTO invocations_asyncinvocation (
    id, account_id, endpoint_id, endpoint_name, variant_name, inference_id, content_type, accept, custom_attributes,
    state, accepted_at, expires_at, timeout_seconds, attempts, due_at, output_location, failure_location, input_location,
    delivery, is_storing, outcome_text, failure_kind, timeline, redrives)
  SELECT id, account_id, endpoint_id, endpoint_name, '', inference_id, content_type, accept, custom_attributes,
         'queued', accepted_at, expires_at, timeout_seconds, 0, accepted_at, output_location, failure_location,
         input_location, delivery, false, '', '', '[]', 0
  FROM row
  ON CONFLICT (id) DO NOTHING
  RETURNING id
), payload AS (
  INSERT INTO invocations_asyncpayload (invocation_id, body)
  SELECT row.id, row.body FROM row JOIN invocation USING (id) WHERE row.input_location = ''
), notified AS (
  SELECT count(pg_notify(%s, endpoint_id::text)) FROM (SELECT DISTINCT endpoint_id FROM row) AS named
)
SELECT row.id FROM row, notified
"""


@dataclass(frozen=True)
class Accepted:
    """One request as it is stored: its payload is `body`, or else is at `input_location`.

    `delivery` is the JSON of what its endpoint says of outcomes (see `invocations.delivery`).
    """

    id: UUID
    account_id: str
    endpoint_id: UUID
    endpoint_name: str
    inference_id: str
    content_type: str
    accept: str
    custom_attributes: str
    accepted_at: datetime
    time_to_live: timedelta
    timeout_seconds: int
    output_location: str
    failure_location: str
    body: bytes
    input_location: str = ""
    delivery: str = "{}"

    @property
    def columns(self) -> tuple[object, ...]:
        """The values in the order of the statement."""
        return (
            self.id,
            self.account_id,
            self.endpoint_id,
            self.endpoint_name,
            self.inference_id,
            self.content_type,
            self.accept,
            self.custom_attributes,
            self.accepted_at,
            self.accepted_at + self.time_to_live,
            self.timeout_seconds,
            self.output_location,
            self.failure_location,
            self.input_location,
            self.delivery,
            self.body,
        )


_PACKERS: tuple[Callable[[Sequence[Any]], bytes], ...] = (
    columns.uuids,
    columns.texts,
    columns.uuids,
    *[columns.texts] * 5,
    *[columns.times] * 2,
    columns.integers,
    *[columns.texts] * 3,
    columns.documents,
    columns.blobs,
)
"""How each of `Accepted.columns` becomes an array."""


class EndpointGone(Exception):
    """The endpoint was deleted before the request was stored; nothing is."""


class Acceptor:
    """Takes requests into the database; `run` does the writing."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(WAITING_LIMIT)

    async def accept(self, request: Accepted) -> None:
        """Return once the request is durable; raises ServiceUnavailable or EndpointGone when it is not known to be."""
        done = self.submit(request)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await done
        except TimeoutError as error:
            raise too_late() from error

    @property
    def is_full(self) -> bool:
        """Whether the next request would be refused."""
        return self._waiting.full()

    def submit(self, request: Accepted) -> "asyncio.Future[None]":
        """What is done once the request is durable, or has EndpointGone as its exception; raises ServiceUnavailable.

        Whoever cancels it has given the request up: it is not stored, unless it is being stored at this moment.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((request, done))
        except asyncio.QueueFull as error:
            raise too_late() from error
        return done

    async def run(self) -> None:
        """Write batches until cancelled."""
        async with asyncio.TaskGroup() as writers:
            for _ in range(WRITERS):
                writers.create_task(self._write_batches())

    async def _write_batches(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            await self._store(batch)

    async def _store(self, batch: "list[_Waiting]") -> None:
        """Store what somebody still waits for: a caller that gave up was told so, and a new request may follow."""
        while batch := [each for each in batch if not each[1].done()]:
            try:
                stored = await self.insert([request for request, _ in batch])
            except _DATABASE_AWAY as error:
                log.warning("%d request(s) cannot be stored now: %s", len(batch), error)
                await asyncio.sleep(RETRY_SECONDS)
            except psycopg.Error as error:
                await self._store_singly(batch, error)
            else:
                _settle([each for each in batch if each[0].id in stored])
                _settle([each for each in batch if each[0].id not in stored], EndpointGone)

    async def _store_singly(self, batch: "list[_Waiting]", error: psycopg.Error) -> None:
        if len(batch) == 1:
            _settle(batch, lambda: error)
        else:
            for each in batch:
                await self._store([each])

    async def insert(self, requests: Sequence[Accepted]) -> set[UUID]:
        """Store them in one transaction; returns the ids of those whose endpoint still exists."""
        rows = zip(*(request.columns for request in requests), strict=True)
        arrays = [Array(pack(column)) for pack, column in zip(_PACKERS, rows, strict=True)]
        async with self._pool.connection(timeout=WAIT_SECONDS) as connection:
            await understand(connection)
            # One statement on a connection in autocommit: the transaction costs a single round trip.
            done = await connection.execute(_INSERT, [*arrays, CHANNEL], prepare=True)
            return {row[0] for row in await done.fetchall()}


_Waiting = tuple[Accepted, "asyncio.Future[None]"]


def too_late() -> ServiceUnavailable:
    """What a caller is told whose request the database did not take in time."""
    return ServiceUnavailable("The request could not be stored in time. Try again.")


def _settle(batch: list[_Waiting], fault: Callable[[], Exception] | None = None) -> None:
    """Tell the callers how it ended; each gets an exception of its own to raise."""
    for _, done in batch:
        if done.done():
            continue
        if fault is None:
            done.set_result(None)
        else:
            done.set_exception(fault())
