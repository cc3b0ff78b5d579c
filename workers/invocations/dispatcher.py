"""The dispatcher: one asyncio loop in each worker that claims invocations and runs them.

It wakes when the gateway stored something (NOTIFY), when one of its own invocations ended, and every second in any case:
a notification is a hint, the scan is the truth. An invocation of an hour costs a coroutine, not a slot of the worker.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from uuid import UUID

import psycopg
from django.conf import settings
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import clock
from controlplane.gateway import counting
from controlplane.invocations.accept import CANCELLED_NOTICE, CHANNEL
from controlplane.observability.heartbeats import process_id
from controlplane.routing.upstream import UpstreamClient
from workers.invocations import measures
from workers.invocations.inputs import Https, Inputs
from workers.invocations.notifier import Notifier
from workers.invocations.outbox import Outbox
from workers.invocations.outcomes import Outcomes
from workers.invocations.plan import room_for
from workers.invocations.queue import RENEW_SECONDS, Leased, Queue, Waiting
from workers.invocations.redrive import Redriver
from workers.invocations.run import Runner
from workers.invocations.store import Store
from workers.invocations.topics import Topics

SCAN_SECONDS = 1.0
GAP_SECONDS = 0.005
BUSY, BUSY_GAP_SECONDS = 16, 0.025
"""With so much running something ends all the time; what has gathered meanwhile is claimed together."""
LOOKING = 0.5
LONGEST_GAP_SECONDS = 0.2
BEAT_SECONDS = 2.0
RUNNING_LIMIT = 512
"""Invocations that this loop runs at once; of them one endpoint gets at most as many as stay free (`plan.room_for`)."""

TELLING_LIMIT = 200
"""Failures, decided without a model, that are told at once; they have places of their own."""

ENDPOINT_BATCH = 64
"""Claims of one endpoint in one round, so that a long queue of one does not keep the others waiting."""

RECLAIM_BATCH = 200

GRACE_SECONDS = 10.0
"""How long invocations that run when the worker is stopped may take to end; others' leases then expire."""

POOL_SIZE = 8

log = logging.getLogger(__name__)

_AWAY = (psycopg.Error, PoolTimeout, OSError)
"""What the database's absence looks like."""


class Dispatcher:
    """Claims and runs invocations until stopped."""

    def __init__(self) -> None:
        env = settings.HEADRACE
        self._database_url = env.database_url
        self._pool = AsyncConnectionPool(
            env.database_url, min_size=1, max_size=POOL_SIZE, open=False, timeout=5, kwargs={"autocommit": True}
        )
        self._queue = Queue(self._pool)
        self._upstream = UpstreamClient()
        self._counts, self._measures = counting.Counts("dispatcher"), measures.Measures()
        self._store, self._topics = Store(env.s3_endpoint_url, env.region), Topics(env.sns_endpoint_url, env.region)
        self._notifier = Notifier(Outbox(self._pool), self._topics, self._measures)
        self._runner = Runner(
            self._queue,
            Outcomes(self._queue, self._store, self._measures, env.region, self._notifier.wake),
            Inputs(self._store, Https(env.input_hosts), env.input_limit_bytes),
            self._upstream,
            self._counts,
            self._measures,
        )
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._running: dict[asyncio.Task[None], Leased] = {}
        self._held: Counter[UUID] = Counter()
        self._telling = self._turn = 0
        self._renew_at = self._beat_at = self._chores_at = self._looked_for = 0.0

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what runs has ended or the grace is over."""
        self._is_stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped; a database that is away is waited for."""
        await self._pool.open(wait=False)
        beside = [
            asyncio.create_task(self._listen()),
            asyncio.create_task(counting.report(self._counts, self._pool)),
            asyncio.create_task(measures.report(self._measures, self._pool)),
            asyncio.create_task(self._notifier.run()),
            asyncio.create_task(Redriver(self._pool, self._store).run()),
        ]
        try:
            while not self._is_stopping:
                began = clock.monotonic()
                try:
                    await self._round()
                except _AWAY as error:
                    log.warning("the queue cannot be reached, trying again: %s", error)
                self._looked_for = clock.monotonic() - began
                await self._pause()
            await self._let_end()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await counting.write(self._counts, self._pool)
            await measures.write(self._measures, self._pool)
            self._upstream.close()
            self._store.close()
            self._topics.close()
            await self._pool.close()

    async def _round(self) -> None:
        """Renew, beat, claim what there is room for, and put right what others left."""
        self._wake.clear()
        await self._keep_leases()
        found = await self._queue.waiting()
        self._turn += 1
        first = self._turn % len(found) if found else 0
        for waiting in [*found[first:], *found[:first]]:
            await self._serve(waiting)
        if clock.monotonic() >= self._chores_at:
            self._chores_at = clock.monotonic() + SCAN_SECONDS
            await self._do_chores()

    async def _do_chores(self) -> None:
        """Take back what dead workers held, and tell the failures that time or an earlier attempt decided."""
        await self._queue.reclaim(RECLAIM_BATCH)
        for claim in (self._queue.claim_expired, self._queue.claim_decided):
            if room := TELLING_LIMIT - self._telling:
                self._tell(await claim(room))

    async def _keep_leases(self) -> None:
        """Renew what runs here; what was lost meanwhile is somebody else's and stops."""
        now = clock.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_SECONDS
            await self._queue.beat(process_id())
        if now < self._renew_at or not self._running:
            return
        self._renew_at = now + RENEW_SECONDS
        held = await self._queue.renew(list(self._running.values()))
        for task, leased in self._running.items():
            is_over = task.done() or self._queue.is_ending(leased)
            if (leased.id, leased.lease_token) not in held and not is_over:
                log.warning("invocation %s: the lease was lost", leased.id)
                task.cancel()

    async def _serve(self, waiting: Waiting) -> None:
        """Claim what there is room for of one endpoint; of one that is gone, what can be told."""
        if waiting.is_gone:
            if room := TELLING_LIMIT - self._telling:
                self._tell(await self._queue.claim_of_deleted(waiting.endpoint_id, room))
            return
        free = RUNNING_LIMIT - (len(self._running) - self._telling)
        room = min(room_for(self._held[waiting.endpoint_id], free), ENDPOINT_BATCH)
        if waiting.route is None or room <= 0:
            return
        places = {t.instance_id: (t.address, variant) for variant in waiting.route.variants for t in variant.targets}
        claimed = await self._queue.claim(waiting, room)
        for leased in claimed:
            address, variant = places[str(leased.instance_id)]
            self._held[leased.endpoint_id] += 1
            call = counting.Call(clock.monotonic(), waiting.route, variant, is_async=True)
            self._start(leased, address, call, self._let_go)
        if len(claimed) == ENDPOINT_BATCH:
            self._wake.set()

    def _tell(self, claimed: Iterable[Leased]) -> None:
        """Start telling failures for which no model is asked."""
        for leased in claimed:
            self._telling += 1
            self._start(leased, "", counting.Call(clock.monotonic()), self._told)

    def _let_go(self, leased: Leased) -> None:
        self._held -= Counter([leased.endpoint_id])  # keeps no endpoint that holds nothing

    def _told(self, leased: Leased) -> None:
        del leased
        self._telling -= 1

    def _start(self, leased: Leased, address: str, call: counting.Call, on_end: Callable[[Leased], None]) -> None:
        task = asyncio.create_task(self._run_one(leased, address, call))
        self._running[task] = leased
        task.add_done_callback(lambda ended: on_end(leased))
        task.add_done_callback(self._ended)

    async def _run_one(self, leased: Leased, address: str, call: counting.Call) -> None:
        try:
            await self._runner.run(leased, address, call)
        except _AWAY as error:
            log.warning("invocation %s: the database was away, its lease will expire: %s", leased.id, error)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        leased = self._running.pop(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("invocation %s failed in the dispatcher", leased.id, exc_info=task.exception())
        self._wake.set()

    async def _pause(self) -> None:
        """Wait for a reason to look, but look no more often than GAP_SECONDS, and no more than LOOKING of the time.

        A burst is then claimed in one round, and looking never takes the processor from what is looked for.
        """
        gap = BUSY_GAP_SECONDS if len(self._running) >= BUSY else GAP_SECONDS
        await asyncio.sleep(min(max(gap, self._looked_for * (1 / LOOKING - 1)), LONGEST_GAP_SECONDS))
        try:
            async with asyncio.timeout(SCAN_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _let_end(self) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=GRACE_SECONDS)
        for task in list(self._running):
            task.cancel()

    async def _listen(self) -> None:
        """Wake on NOTIFY; whatever happens here only delays work to the next scan."""
        while True:
            try:
                connection = await AsyncConnection.connect(self._database_url, autocommit=True, connect_timeout=5)
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    async for notice in connection.notifies():
                        if notice.payload == CANCELLED_NOTICE:
                            self._renew_at = 0.0  # whoever runs the cancelled request has lost its lease
                        self._wake.set()
            except _AWAY as error:
                log.warning("notifications of the queue are interrupted: %s", error)
            await asyncio.sleep(SCAN_SECONDS)
