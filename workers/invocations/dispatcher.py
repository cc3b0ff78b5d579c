"""The dispatcher: one asyncio loop in each worker that claims invocations and runs them.

It claims at once from an endpoint that a notification names, again when a slot of an endpoint with more in its queue is
free (see `appetite`), and looks through all of them every second: a notification is a hint, the scan is the truth. An
invocation of an hour costs a coroutine, not a slot of the worker.
"""

import asyncio
import logging
from contextlib import suppress
from math import inf
from uuid import UUID

from django.conf import settings
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.keep_going import keep_going
from controlplane.gateway import counting
from controlplane.invocations.accept import CANCELLED_NOTICE, CHANNEL
from controlplane.invocations.line import Line
from controlplane.observability.heartbeats import process_id
from controlplane.routing.upstream import UpstreamClient
from workers.invocations import measures
from workers.invocations.appetite import Appetite
from workers.invocations.crew import AWAY, Crew
from workers.invocations.doorbell import Doorbell, tell
from workers.invocations.given_back import give_back
from workers.invocations.inputs import Https, Inputs
from workers.invocations.known_routes import KnownRoutes
from workers.invocations.leased import Leased
from workers.invocations.ledger import MANY
from workers.invocations.notifier import Notifier
from workers.invocations.outbox import Outbox
from workers.invocations.outcomes import Outcomes
from workers.invocations.patient import PatientLedger
from workers.invocations.queue import CLAIMING, RENEW_SECONDS, Queue, Waiting
from workers.invocations.reach import NOTICE as UNREACHED_NOTICE
from workers.invocations.reach import Reach
from workers.invocations.redrive import Redriver
from workers.invocations.run import Runner
from workers.invocations.statements import CLAIM_LIMIT
from workers.invocations.store import Store
from workers.invocations.topics import Topics

SCAN_SECONDS = 1.0
BEAT_SECONDS = 2.0
RECLAIM_BATCH = 200
POOL_SIZE = 8

AGAIN_SECONDS = 0.2
"""How long a database that is away is left alone."""

FAULT_SECONDS = 1.0
"""How long the dispatcher waits after a fault of its own."""

log = logging.getLogger(__name__)


class Dispatcher:
    """Claims and runs invocations until stopped."""

    def __init__(self) -> None:
        env = settings.HEADRACE
        # Claims and outcomes have a connection each, which keeps the plans of their statements and waits for nobody else.
        self._pool = _pool(env.database_url)
        self._routes = KnownRoutes()
        for_claims = Line(env.database_url, *CLAIMING, lost=self._routes.forget)
        for_outcomes = Line(env.database_url, *MANY)
        self._lines = (for_claims, for_outcomes)
        self._queue, self._ledger = Queue(self._pool, for_claims), PatientLedger(self._pool, for_outcomes)
        self._doorbell = Doorbell(env.database_url, CHANNEL, self._rung)
        self._upstream = UpstreamClient()
        self._counts, self._measures = counting.Counts("dispatcher"), measures.Measures()
        self._store, self._topics = Store(env.s3_endpoint_url, env.region), Topics(env.sns_endpoint_url, env.region)
        self._notifier = Notifier(Outbox(self._pool), self._topics, self._measures)
        self._wake = asyncio.Event()
        self._appetite, self._reach = Appetite(), Reach()
        self._crew = Crew(self._run_leased, self._appetite, self._wake.set)
        told, freed = self._notifier.wake, self._crew.freed
        self._runner = Runner(
            self._ledger,
            Outcomes(self._ledger, self._store, self._measures, env.region, told, freed),
            Inputs(self._store, Https(env.input_hosts), env.input_limit_bytes),
            self._upstream,
            self._counts,
            self._measures,
            self._reach,
            lambda instance_id: tell(self._pool, CHANNEL, f"{UNREACHED_NOTICE}{instance_id}"),
        )
        self._is_stopping = False
        self._turn = 0
        self._renew_at = self._beat_at = self._scan_at = 0.0

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what runs has ended or the grace is over."""
        self._is_stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped; a database that is away is waited for."""
        await self._pool.open(wait=False)
        for line in self._lines:
            line.open()
        beside = [
            asyncio.create_task(keep_going(work))
            for work in (
                self._doorbell.run,
                lambda: counting.report(self._counts, self._pool),
                lambda: measures.report(self._measures, self._pool),
                self._notifier.run,
                Redriver(self._pool, self._store).run,
            )
        ]
        try:
            while not self._is_stopping:
                try:
                    await self._round()
                except AWAY as error:
                    log.warning("the queue cannot be reached, trying again: %s", error)
                    await asyncio.sleep(AGAIN_SECONDS)
                except Exception:
                    # Without its rounds the worker would beat no more, and claim nothing. What this one leased runs out.
                    log.exception("a round of the dispatcher failed, and the next one follows")
                    self._routes.forget()
                    await asyncio.sleep(FAULT_SECONDS)
                await self._pause()
            await self._crew.let_end()
            with suppress(*AWAY):  # then the leases run out
                await self._give_back()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await counting.write(self._counts, self._pool)
            await measures.write(self._measures, self._pool)
            self._upstream.close()
            self._store.close()
            self._topics.close()
            for line in self._lines:
                await line.close()
            await self._pool.close()

    async def _round(self) -> None:
        """Claim from the endpoints that are named, and renew; every second look through all of them, and at the rest."""
        if clock.monotonic() < self._scan_at:
            for endpoint_id, request_id in self._appetite.take().items():
                await self._claim(endpoint_id, request_id)
            await self._keep_leases()
            return
        self._scan_at = clock.monotonic() + SCAN_SECONDS
        await self._keep_leases()
        await self._beat()
        await self._scan()
        await self._do_chores()

    async def _scan(self) -> None:
        """Claim from every endpoint that has something queued, another one first each time."""
        self._appetite.take()
        found = await self._queue.waiting()
        self._turn += 1
        first = self._turn % len(found) if found else 0
        for waiting in [*found[first:], *found[:first]]:
            await self._serve(waiting)

    async def _do_chores(self) -> None:
        """Take back what dead workers held, give back what is not worked on here, and tell the failures that time or an
        earlier attempt decided.
        """
        await self._give_back()
        await self._queue.reclaim(RECLAIM_BATCH)
        for claim in (self._queue.claim_expired, self._queue.claim_decided):
            if room := self._crew.room_to_tell:
                self._crew.tell(await claim(room))

    async def _give_back(self) -> None:
        """Give back what is leased and not worked on."""
        abandoned, unheard = self._crew.abandoned.copy(), self._queue.unheard
        if abandoned or unheard:
            await give_back(self._pool, abandoned, unheard)
            del self._crew.abandoned[: len(abandoned)]

    async def _beat(self) -> None:
        """Say that this loop makes progress, and hear what time it is."""
        if clock.monotonic() >= self._beat_at:
            self._beat_at = clock.monotonic() + BEAT_SECONDS
            clock.told(await self._queue.beat(process_id()))

    async def _keep_leases(self) -> None:
        """Renew what runs here; what was lost meanwhile is somebody else's and stops."""
        now = clock.monotonic()
        if not self._crew.size:
            self._renew_at = now + RENEW_SECONDS  # what is claimed next is good for longer
        elif now >= self._renew_at:
            self._renew_at = now + RENEW_SECONDS
            self._crew.drop_lost(await self._ledger.renew(self._crew.leases), self._ledger.is_ending)

    async def _serve(self, waiting: Waiting) -> None:
        """Claim from one endpoint; of one that is gone, what can be told."""
        if not waiting.is_gone:
            await self._claim(waiting.endpoint_id)
        elif room := self._crew.room_to_tell:
            self._crew.tell(await self._queue.claim_of_deleted(waiting.endpoint_id, room))

    async def _claim(self, endpoint_id: UUID, request_id: UUID | None = None) -> None:
        """Claim what there is room for, and start it; at an endpoint of which nothing runs here, the request that waits
        alone, where it is known."""
        room = min(self._crew.room(endpoint_id), CLAIM_LIMIT)
        if room <= 0:
            self._appetite.starve(endpoint_id)
            return
        shunned = self._reach.shunned(clock.monotonic())
        claimed, known = [], self._routes.revision
        if request_id and not self._crew.held(endpoint_id) and (at := self._routes.first_open(endpoint_id, shunned)):
            claimed = await self._queue.claim_alone(endpoint_id, request_id, at, known(endpoint_id))
        if not claimed:  # by then everything may be forgotten
            claimed = await self._queue.claim(endpoint_id, room, known(endpoint_id), shunned)
        for leased in claimed:
            route, variant, address = self._routes.place(leased)
            self._crew.take(leased, address, counting.Call(clock.monotonic(), route, variant, is_async=True))
        held, now = self._crew.held(endpoint_id), clock.monotonic()
        slots = claimed[0].slots if claimed else 0
        self._appetite.claimed(endpoint_id, got=len(claimed), room=room, slots=slots, held=held, now=now)

    async def _run_leased(self, leased: Leased, address: str, call: counting.Call) -> None:
        await self._runner.run(leased, address, call)

    async def _pause(self) -> None:
        """Wait until it is time to claim, to renew or to look through all."""
        while not self._is_stopping:
            now = clock.monotonic()
            wait = self._appetite.wait_seconds(running=self._crew.size, now=now)
            until_chores = max(min(self._scan_at, self._renew_at if self._crew.size else inf) - now, 0.0)
            wait = until_chores if wait is None else min(wait, until_chores)
            if wait <= 0.0:
                return
            self._wake.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                return

    def _rung(self, notice: str) -> None:
        """Something was queued at the endpoint that the notice names, or anywhere, a running request was cancelled, or an
        instance could not be reached.
        """
        now = clock.monotonic()
        try:
            endpoint, _, request = notice.partition(" ")
            endpoint_id, request_id = UUID(endpoint), UUID(request) if request else None
        except ValueError:
            if notice.startswith(UNREACHED_NOTICE):
                self._reach.failed(UUID(notice.removeprefix(UNREACHED_NOTICE)), now)
                return
            if notice == CANCELLED_NOTICE:
                self._renew_at = now  # whoever runs the cancelled request has lost its lease
            self._scan_at = now
        else:
            self._appetite.told(endpoint_id, held=self._crew.held(endpoint_id), now=now, request_id=request_id)
        self._wake.set()


def _pool(database_url: str) -> AsyncConnectionPool:
    return AsyncConnectionPool(
        database_url, min_size=1, max_size=POOL_SIZE, open=False, timeout=5, kwargs={"autocommit": True}
    )
