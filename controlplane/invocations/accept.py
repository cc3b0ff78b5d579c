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
from collections.abc import Sequence
from functools import partial

import psycopg

from controlplane.core.futures import end
from controlplane.invocations.accept_statements import INSERT, INSERT_ONE
from controlplane.invocations.accepted import Accepted
from controlplane.invocations.line import Line, Row
from controlplane.invocations.waiting import Tell, Waiting, WaitingRoom, too_late

BATCH = 200
WRITERS = 2
WAITING_LIMIT = 1000
"""Requests that may wait for a writer; more are refused at once. Their bodies take 128 MB at most."""
RETRY_SECONDS = 0.2

GATHER_SECONDS = 0.05
"""How long few may wait for more while many are being stored, however long those take."""

log = logging.getLogger(__name__)


class EndpointGone(Exception):
    """The endpoint was deleted before the request was stored; nothing is."""


class Acceptor:
    """Takes requests into the database, over WRITERS connections of its own; for one event loop."""

    def __init__(self, database_url: str) -> None:
        self._lines = [Line(database_url, INSERT_ONE, INSERT) for _ in range(WRITERS)]
        self._idle = list(self._lines)
        self._room = WaitingRoom()
        self._queue: deque[Waiting] = deque()
        self._apart: deque[Waiting] = deque()
        """What is to be tried by itself, since a batch with it was refused."""
        self._is_woken = False
        self._under_way = 0
        """How many requests are being stored."""
        self._gathering: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin to open the connections, so that the first request need not wait for one."""
        for line in self._lines:
            line.open()

    async def close(self) -> None:
        """Close them; what is being stored may be stored all the same."""
        if self._gathering is not None:
            self._gathering.cancel()
        for line in self._lines:
            await line.close()

    async def accept(self, request: Accepted) -> None:
        """Return once the request is durable; raises ServiceUnavailable or EndpointGone when it is not known to be."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self.submit(request, partial(end, done))
        try:
            await done
        finally:
            self._room.leave(waiting)

    @property
    def is_full(self) -> bool:
        """Whether the next request would be refused."""
        return len(self._queue) >= WAITING_LIMIT

    def submit(self, request: Accepted, tell: Tell) -> Waiting:
        """Have a request stored, and `tell` how that ended: durable, EndpointGone, ServiceUnavailable or another error.

        Raises ServiceUnavailable where too many wait. `tell` is called later, once, and in bounded time. Whoever was told
        that it is too late has given the request up: it is not stored, unless it is being stored at this moment.
        """
        if self.is_full:
            raise too_late()
        waiting = self._room.enter(request, tell)
        self._queue.append(waiting)
        if self._idle and not self._is_woken:  # whatever arrives in the same round of the loop comes along
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._wake)
        return waiting

    def _wake(self) -> None:
        self._is_woken = False
        self._write()

    def _write(self) -> None:
        """Let each idle connection store a batch.

        Few do not go while many are under way: connections that took whatever had come would soon do so by turns, in ever
        smaller batches, each with a commit of its own.
        """
        while self._idle and (self._apart or len(self._queue) >= self._under_way):
            if not (batch := self._next_batch()):
                return
            self._store(batch)
        if self._idle and self._queue and self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._stop_gathering)

    def _stop_gathering(self) -> None:
        """Store what waits: what is under way may take long."""
        self._gathering = None
        if self._idle and (batch := self._next_batch()):
            self._store(batch)

    def _store(self, batch: list[Waiting]) -> None:
        line = self._idle.pop()
        self._under_way += len(batch)
        requests = [waiting.request for waiting in batch]
        self._insert(line, requests).add_done_callback(partial(self._written, line, batch))

    def _next_batch(self) -> list[Waiting]:
        """What somebody still waits for: a caller that gave up was told so, and a new request may follow."""
        while self._apart:
            if (waiting := self._apart.popleft()) in self._room:
                return [waiting]
        batch: list[Waiting] = []
        while self._queue and len(batch) < BATCH:
            if (waiting := self._queue.popleft()) in self._room:
                batch.append(waiting)
        return batch

    def _written(self, line: Line, batch: list[Waiting], asked: "asyncio.Future[list[Row]]") -> None:
        """Tell the callers of a batch how it ended, and let its connection go on."""
        self._under_way -= len(batch)
        error = asked.exception()
        if isinstance(error, psycopg.OperationalError):
            log.warning("%d request(s) cannot be stored now: %s", len(batch), error)
            self._queue.extendleft(reversed(batch))
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._go_on, line)
            return
        if error is None:
            # After the next batch: the database need not wait until all of this one are answered.
            asyncio.get_running_loop().call_soon(self._tell, batch, _endpoints_in(asked.result()))
        elif len(batch) == 1:
            self._room.tell(batch[0], error)
        else:
            self._apart.extend(batch)
        self._go_on(line)

    def _tell(self, batch: list[Waiting], there: set[str]) -> None:
        for waiting in batch:
            self._room.tell(waiting, None if waiting.request.endpoint_id in there else EndpointGone())

    def _go_on(self, line: Line) -> None:
        self._idle.append(line)
        self._write()

    async def insert(self, requests: Sequence[Accepted]) -> set[str]:
        """Store them in one transaction; returns the endpoints, of theirs, that still exist: the others' are not stored."""
        return _endpoints_in(await self._insert(self._lines[0], requests))

    def _insert(self, line: Line, requests: Sequence[Accepted]) -> "asyncio.Future[list[Row]]":
        if len(requests) == 1:
            return line.ask((INSERT_ONE, requests[0]._asdict()))
        return line.ask((INSERT, dict(zip(Accepted._fields, zip(*requests, strict=True), strict=True))))


def _endpoints_in(rows: Sequence[Row]) -> set[str]:
    return {row[0] for row in rows}
