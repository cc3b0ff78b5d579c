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
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID

import psycopg

from controlplane.core.errors import ServiceUnavailable
from controlplane.invocations import columns
from controlplane.invocations.line import Line, Pack, Row, Statement

CHANNEL = "headrace_async"
"""Its notifications name the endpoint (its id) at which something was queued, and the request (its id) after a space if it
is one alone; blank means any."""

CANCELLED_NOTICE = "cancelled"
"""The payload of a notification after which workers look for leases that they have lost."""

BATCH = 200
WRITERS = 2
WAITING_LIMIT = 1000
"""Requests that may wait for a writer; more are refused at once. Their bodies take 128 MB at most."""
RETRY_SECONDS = 0.2
WAIT_SECONDS = 5.0
"""How long a caller waits for the database before it is told to come back."""

log = logging.getLogger(__name__)


class Accepted(NamedTuple):
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
    expires_at: datetime
    timeout_seconds: int
    output_location: str
    failure_location: str
    body: bytes
    input_location: str = ""
    delivery: str = "{}"


class _Field(NamedTuple):
    """The type of a column, and how one value and many become that type and an array of it."""

    type: str
    one: Pack
    many: Pack


_ID = _Field("uuid", columns.uuid, columns.uuids)
_TEXT = _Field("varchar", columns.text, columns.texts)
_MOMENT = _Field("timestamptz", columns.moment, columns.times)

_FIELDS = dict.fromkeys(Accepted._fields, _TEXT) | {
    "id": _ID,
    "endpoint_id": _ID,
    "accepted_at": _MOMENT,
    "expires_at": _MOMENT,
    "timeout_seconds": _Field("int", columns.integer, columns.integers),
    "body": _Field("bytea", columns.blob, columns.blobs),
    "delivery": _Field("jsonb", columns.document, columns.documents),
}

# `row` is what is to be stored. Each id is stored once, however often the statement runs.
_SQL = f"""
WITH row AS (
  SELECT row.* FROM {{rows}}
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
  SELECT count(pg_notify('{CHANNEL}', notice)) FROM (
    SELECT endpoint_id::text || CASE WHEN count(*) = 1 THEN ' ' || min(id::text) ELSE '' END AS notice
    FROM row GROUP BY endpoint_id
  ) AS named
)
SELECT row.id FROM row, notified
"""  # noqa: S608 - composed of this module's constants


def _one() -> Statement:
    """The statement for one request alone, half as dear as that for many."""
    values = ", ".join(f"%({name})s::{field.type} AS {name}" for name, field in _FIELDS.items())
    packs = {name: field.one for name, field in _FIELDS.items()}
    return Statement("accept_one", _SQL.format(rows=f"(SELECT {values}) AS row"), **packs)


def _many() -> Statement:
    """The statement for requests that came at about the same time."""
    arrays = ", ".join(f"%({name})s::{field.type}[]" for name, field in _FIELDS.items())
    packs = {name: field.many for name, field in _FIELDS.items()}
    return Statement("accept", _SQL.format(rows=f"unnest({arrays}) AS row ({', '.join(_FIELDS)})"), **packs)


_INSERT_ONE, _INSERT = _one(), _many()


class EndpointGone(Exception):
    """The endpoint was deleted before the request was stored; nothing is."""


class Acceptor:
    """Takes requests into the database, over WRITERS connections of its own; for one event loop."""

    def __init__(self, database_url: str) -> None:
        self._lines = [Line(database_url, _INSERT_ONE, _INSERT) for _ in range(WRITERS)]
        self._idle = list(self._lines)
        self._waiting: deque[_Waiting] = deque()
        self._apart: deque[_Waiting] = deque()
        """What is to be tried by itself, since a batch with it was refused."""
        self._is_woken = False

    def open(self) -> None:
        """Begin to open the connections, so that the first request need not wait for one."""
        for line in self._lines:
            line.open()

    async def close(self) -> None:
        """Close them; what is being stored may be stored all the same."""
        for line in self._lines:
            await line.close()

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
        return len(self._waiting) >= WAITING_LIMIT

    def submit(self, request: Accepted) -> "asyncio.Future[None]":
        """What is done once the request is durable, or has EndpointGone as its exception; raises ServiceUnavailable.

        Whoever cancels it has given the request up: it is not stored, unless it is being stored at this moment.
        """
        if self.is_full:
            raise too_late()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((request, done))
        if self._idle and not self._is_woken:  # whatever arrives in the same round of the loop comes along
            self._is_woken = True
            loop.call_soon(self._wake)
        return done

    def _wake(self) -> None:
        self._is_woken = False
        self._write()

    def _write(self) -> None:
        """Let each idle connection store a batch."""
        while self._idle and (batch := self._next_batch()):
            line = self._idle.pop()
            self._insert(line, [request for request, _ in batch]).add_done_callback(partial(self._written, line, batch))

    def _next_batch(self) -> "list[_Waiting]":
        """What somebody still waits for: a caller that gave up was told so, and a new request may follow."""
        while self._apart:
            if not (each := self._apart.popleft())[1].done():
                return [each]
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < BATCH:
            if not (each := self._waiting.popleft())[1].done():
                batch.append(each)
        return batch

    def _written(self, line: Line, batch: "list[_Waiting]", asked: "asyncio.Future[list[Row]]") -> None:
        """Tell the callers of a batch how it ended, and let its connection go on."""
        error = asked.exception()
        if isinstance(error, psycopg.OperationalError):
            log.warning("%d request(s) cannot be stored now: %s", len(batch), error)
            self._waiting.extendleft(reversed(batch))
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._go_on, line)
            return
        if error is None:
            stored = {row[0] for row in asked.result()}
            _settle([each for each in batch if each[0].id in stored])
            _settle([each for each in batch if each[0].id not in stored], EndpointGone)
        elif len(batch) == 1:
            _settle(batch, lambda: error)
        else:
            self._apart.extend(batch)
        self._go_on(line)

    def _go_on(self, line: Line) -> None:
        self._idle.append(line)
        self._write()

    async def insert(self, requests: Sequence[Accepted]) -> set[UUID]:
        """Store them in one transaction; returns the ids of those whose endpoint still exists."""
        return {row[0] for row in await self._insert(self._lines[0], requests)}

    def _insert(self, line: Line, requests: Sequence[Accepted]) -> "asyncio.Future[list[Row]]":
        if len(requests) == 1:
            return line.ask((_INSERT_ONE, requests[0]._asdict()))
        return line.ask((_INSERT, dict(zip(Accepted._fields, zip(*requests, strict=True), strict=True))))


_Waiting = tuple[Accepted, "asyncio.Future[None]"]


def too_late() -> ServiceUnavailable:
    """What a caller is told whose request the database did not take in time."""
    return ServiceUnavailable("The request could not be stored in time. Try again.")


def _settle(batch: list[_Waiting], fault: Callable[[], BaseException] | None = None) -> None:
    """Tell the callers how it ended; each gets an exception of its own to raise."""
    for _, done in batch:
        if done.done():
            continue
        if fault is None:
            done.set_result(None)
        else:
            done.set_exception(fault())
