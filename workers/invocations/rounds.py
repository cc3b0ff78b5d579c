"""The rounds of a dispatcher: what is claimed, kept and given back, one statement after the other.

    a request alone ----> claimed beside the rounds (see `at_once`) ----+
    named endpoints ----> claimed from in the next round ---------------+----> the crew runs it
    every second    ----> all endpoints, chores ------------------------+

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
from controlplane.invocations.notices import CANCELLED_NOTICE, Queued, queued
from controlplane.observability.heartbeats import process_id
from workers.invocations.appetite import Appetite
from workers.invocations.at_once import AtOnce
from workers.invocations.crew import Crew
from workers.invocations.given_back import give_back
from workers.invocations.known_routes import KnownRoutes, Place
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

    def __post_init__(self) -> None:
        self._at_once = AtOnce(self.queue, self.crew, self.routes, self.reach, self._run_alone, self._tell)

    def stop(self) -> None:
        """Claim nothing more."""
        self.is_stopping = True
        self.wake.set()

    async def work(self) -> None:
        """Claim from the endpoints that are named, and renew; every second look through all of them, and at the rest."""
        self.moves += 1
        if not self._timetable.is_scan_due(clock.monotonic()):
            for endpoint_id in self.appetite.take():
                await self._claim(endpoint_id)
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

    async def end(self) -> None:
        """Let what was asked for beside the rounds be answered; after `stop`."""
        await self._at_once.end()

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
            leases = self.crew.leases
            self.crew.drop_lost(leases, await self.ledger.renew(leases), self.ledger.is_ending)

    async def _serve(self, waiting: Waiting) -> None:
        """Claim from one endpoint; of one that is gone, what can be told."""
        self.moves += 1
        if not waiting.is_gone:
            await self._claim(waiting.endpoint_id)
        elif room := self.crew.room_to_tell:
            self.crew.tell(await self.queue.claim_of_deleted(waiting.endpoint_id, room))

    async def _claim(self, endpoint_id: UUID) -> None:
        """Claim what there is room for, and start it."""
        self.moves += 1
        if self._is_passed_over(endpoint_id):
            return
        room = min(self.crew.room(endpoint_id), CLAIM_LIMIT)
        if room <= 0:
            self.appetite.starve(endpoint_id)
            return
        try:
            shunned = self.reach.shunned(clock.monotonic())
            claimed = await self.queue.claim(endpoint_id, room, self.routes.revision(endpoint_id), shunned)
        except ReadOnlySqlTransaction:  # of a standby, which says nothing of the claim
            raise
        except REFUSALS as error:
            self._pass_over(endpoint_id, error)
            return
        self._start(claimed)
        self._has_claimed(endpoint_id, claimed, room)

    def _start(self, claimed: Sequence[Leased]) -> None:
        """Run what was claimed where its claim says; what cannot be run is given back."""
        for number, leased in enumerate(claimed):
            try:
                place = self.routes.place(leased)
            except Exception as error:
                self.crew.abandoned.extend(claimed[number:])
                self._pass_over(leased.endpoint_id, error)
                raise
            self._take(leased, place)

    def _run_alone(self, leased: Leased, place: Place, room: int) -> None:
        self._take(leased, place)
        self._has_claimed(leased.endpoint_id, [leased], room)

    def _take(self, leased: Leased, place: Place) -> None:
        self.crew.take(leased, place.address, Call(clock.monotonic(), place.route, place.variant, is_async=True))

    def _has_claimed(self, endpoint_id: UUID, claimed: Sequence[Leased], room: int) -> None:
        """This was claimed from the endpoint, where there was so much room."""
        held, now = self.crew.held(endpoint_id), clock.monotonic()
        slots = claimed[0].slots if claimed else 0
        self.appetite.claimed(endpoint_id, got=len(claimed), room=room, slots=slots, held=held, now=now)

    def _is_passed_over(self, endpoint_id: UUID) -> bool:
        return self._passed_over.get(endpoint_id, -inf) > clock.monotonic()

    def _pass_over(self, endpoint_id: UUID, error: Exception) -> None:
        log.warning("nothing can be claimed from endpoint %s, which is passed over for a while: %s", endpoint_id, error)
        now = clock.monotonic()
        self._passed_over = {each: until for each, until in self._passed_over.items() if until > now}
        self._passed_over[endpoint_id] = now + PASSED_OVER_SECONDS

    def rung(self, notice: str) -> None:
        """Hear a notice (see `notices`); one that is not understood may mean anything."""
        if told := queued(notice):
            self._hear_of_one(told)
            return
        now = clock.monotonic()
        if notice.startswith(UNREACHED_NOTICE):
            self.reach.failed(UUID(notice.removeprefix(UNREACHED_NOTICE)), now)
            return
        if notice == CANCELLED_NOTICE:
            self._timetable.renew_now(now)  # whoever runs the cancelled request has lost its lease
        self._timetable.scan_now(now)
        self.wake.set()

    def _hear_of_one(self, told: Queued) -> None:
        """Claim at once what may be; the rest is for the next round."""
        is_open = not self.is_stopping and not self._is_passed_over(told.endpoint_id)
        if not (is_open and told.request_id and self._at_once.claim(told.endpoint_id, told.request_id)):
            self._tell(told.endpoint_id)

    def _tell(self, endpoint_id: UUID) -> None:
        """There may be something to claim from the endpoint in the next round."""
        self.appetite.told(endpoint_id, held=self.crew.held(endpoint_id), now=clock.monotonic())
        self.wake.set()
