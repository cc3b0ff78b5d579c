"""The rounds of a dispatcher: what is claimed, kept and given back, one statement after the other.

    named endpoints ----> claimed from at once ----+
    every second    ----> all endpoints, chores ---+----> the crew runs it

One endpoint cannot hold up the others: one whose claim is refused is passed over for a while. What a round raises otherwise
ends that round alone (see `dispatcher`).
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from uuid import UUID

from psycopg import DataError, IntegrityError, InternalError, ProgrammingError
from psycopg.errors import LockNotAvailable, ReadOnlySqlTransaction
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.gateway.counting import Call
from controlplane.invocations.accept import CANCELLED_NOTICE
from controlplane.observability.heartbeats import process_id
from workers.invocations.appetite import Appetite
from workers.invocations.crew import Crew
from workers.invocations.given_back import give_back
from workers.invocations.known_routes import KnownRoutes
from workers.invocations.leased import Leased
from workers.invocations.ledger import Ledger
from workers.invocations.queue import Queue, Waiting
from workers.invocations.reach import NOTICE as UNREACHED_NOTICE
from workers.invocations.reach import Reach
from workers.invocations.statements import CLAIM_LIMIT
from workers.invocations.timetable import Timetable

RECLAIM_BATCH = 200

PASSED_OVER_SECONDS = 10.0
"""How long nothing is claimed from an endpoint whose claim the database refused."""

REFUSALS = (LockNotAvailable, DataError, IntegrityError, InternalError, ProgrammingError)
"""What the database says of a claim itself: somebody has that endpoint's turn for too long (`statements.TAKE_TURN`), or
something is wrong with what is stored of it."""

log = logging.getLogger(__name__)


@dataclass
class Rounds:
    """Claims for `crew`, by `queue`, and keeps the leases of what it runs, by `ledger`; `wake` is set by whoever makes
    something due that was not.

    `moves` counts what was begun, so that others can see whether anything is.
    """

    pool: AsyncConnectionPool
    queue: Queue
    ledger: Ledger
    crew: Crew
    routes: KnownRoutes
    appetite: Appetite
    reach: Reach
    wake: asyncio.Event
    moves: int = 0
    is_stopping: bool = False
    _timetable: Timetable = field(default_factory=Timetable)
    _passed_over: dict[UUID, float] = field(default_factory=dict)
    _turn: int = 0

    def stop(self) -> None:
        """Claim nothing more."""
        self.is_stopping = True
        self.wake.set()

    async def work(self) -> None:
        """Claim from the endpoints that are named, and renew; every second look through all of them, and at the rest."""
        self.moves += 1
        if not self._timetable.is_scan_due(clock.monotonic()):
            for endpoint_id, request_id in self.appetite.take().items():
                await self._claim(endpoint_id, request_id)
            await self._keep_leases()
            return
        await self._keep_leases()
        if self._timetable.is_beat_due(clock.monotonic()):
            clock.told(await self.queue.beat(process_id()))
        await self._scan()
        await self._do_chores()

    async def pause(self) -> None:
        """Wait until it is time to claim, to renew or to look through all, or to stop."""
        while not self.is_stopping:
            running, now = self.crew.size, clock.monotonic()
            claim_in = self.appetite.wait_seconds(running=running, now=now)
            wait = self._timetable.wait_seconds(claim_in=claim_in, running=running, now=now)
            if wait <= 0.0:
                return
            self.wake.clear()
            try:
                async with asyncio.timeout(wait):
                    await self.wake.wait()
            except TimeoutError:
                return

    async def give_back(self) -> None:
        """Give back what is leased and not worked on."""
        abandoned, unheard = self.crew.abandoned.copy(), self.queue.unheard
        if abandoned or unheard:
            await give_back(self.pool, abandoned, unheard)
            del self.crew.abandoned[: len(abandoned)]

    async def _scan(self) -> None:
        """Claim from every endpoint that has something queued, another one first each time."""
        self.appetite.take()
        found = await self.queue.waiting()
        self._turn += 1
        first = self._turn % len(found) if found else 0
        for waiting in [*found[first:], *found[:first]]:
            await self._serve(waiting)

    async def _do_chores(self) -> None:
        """Take back what dead workers held, give back what is not worked on here, and tell the failures that time or an
        earlier attempt decided.
        """
        await self.give_back()
        self.moves += 1
        await self.queue.reclaim(RECLAIM_BATCH)
        for claim in (self.queue.claim_expired, self.queue.claim_decided):
            self.moves += 1
            if room := self.crew.room_to_tell:
                self.crew.tell(await claim(room))

    async def _keep_leases(self) -> None:
        """Renew what runs here; what was lost meanwhile is somebody else's and stops."""
        self.moves += 1
        if self._timetable.is_renewal_due(running=self.crew.size, now=clock.monotonic()):
            self.crew.drop_lost(await self.ledger.renew(self.crew.leases), self.ledger.is_ending)

    async def _serve(self, waiting: Waiting) -> None:
        """Claim from one endpoint; of one that is gone, what can be told."""
        self.moves += 1
        if not waiting.is_gone:
            await self._claim(waiting.endpoint_id)
        elif room := self.crew.room_to_tell:
            self.crew.tell(await self.queue.claim_of_deleted(waiting.endpoint_id, room))

    async def _claim(self, endpoint_id: UUID, request_id: UUID | None = None) -> None:
        """Claim what there is room for, and start it."""
        self.moves += 1
        if self._passed_over.get(endpoint_id, -inf) > clock.monotonic():
            return
        room = min(self.crew.room(endpoint_id), CLAIM_LIMIT)
        if room <= 0:
            self.appetite.starve(endpoint_id)
            return
        try:
            claimed = await self._claimed(endpoint_id, request_id, room)
        except ReadOnlySqlTransaction:  # of a standby, which says nothing of the claim
            raise
        except REFUSALS as error:
            self._pass_over(endpoint_id, error)
            return
        self._start(claimed)
        held, now = self.crew.held(endpoint_id), clock.monotonic()
        slots = claimed[0].slots if claimed else 0
        self.appetite.claimed(endpoint_id, got=len(claimed), room=room, slots=slots, held=held, now=now)

    def _start(self, claimed: Sequence[Leased]) -> None:
        """Run what was claimed where its claim says; what cannot be run is given back."""
        for place, leased in enumerate(claimed):
            try:
                route, variant, address = self.routes.place(leased)
            except Exception as error:
                self.crew.abandoned.extend(claimed[place:])
                self._pass_over(leased.endpoint_id, error)
                raise
            self.crew.take(leased, address, Call(clock.monotonic(), route, variant, is_async=True))

    async def _claimed(self, endpoint_id: UUID, request_id: UUID | None, room: int) -> list[Leased]:
        """What is claimed; at an endpoint of which nothing runs here, the request that waits alone, where it is known."""
        shunned, known = self.reach.shunned(clock.monotonic()), self.routes.revision
        if request_id and not self.crew.held(endpoint_id) and (at := self.routes.first_open(endpoint_id, shunned)):
            alone = await self.queue.claim_alone(endpoint_id, request_id, at, known(endpoint_id))
            if alone:
                return alone
        return await self.queue.claim(endpoint_id, room, known(endpoint_id), shunned)  # by now all may be forgotten

    def _pass_over(self, endpoint_id: UUID, error: Exception) -> None:
        log.warning("nothing can be claimed from endpoint %s, which is passed over for a while: %s", endpoint_id, error)
        now = clock.monotonic()
        self._passed_over = {each: until for each, until in self._passed_over.items() if until > now}
        self._passed_over[endpoint_id] = now + PASSED_OVER_SECONDS

    def rung(self, notice: str) -> None:
        """Something was queued at the endpoint that the notice names, or anywhere, a running request was cancelled, or an
        instance could not be reached.
        """
        now = clock.monotonic()
        try:
            endpoint, _, request = notice.partition(" ")
            endpoint_id, request_id = UUID(endpoint), UUID(request) if request else None
        except ValueError:
            if notice.startswith(UNREACHED_NOTICE):
                self.reach.failed(UUID(notice.removeprefix(UNREACHED_NOTICE)), now)
                return
            if notice == CANCELLED_NOTICE:
                self._timetable.renew_now(now)  # whoever runs the cancelled request has lost its lease
            self._timetable.scan_now(now)
        else:
            self.appetite.told(endpoint_id, held=self.crew.held(endpoint_id), now=now, request_id=request_id)
        self.wake.set()
