"""The dispatcher: one asyncio loop in each worker that claims invocations and runs them.

It wakes when the gateway stored something (NOTIFY), when one of its own invocations ended, and every second in any case:
a notification is a hint, the scan is the truth. An invocation of an hour costs a coroutine, not a slot of the worker.
"""

import asyncio
import logging

import psycopg
from django.conf import settings
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import clock
from controlplane.gateway import counting
from controlplane.observability.heartbeats import process_id
from controlplane.routing.upstream import UpstreamClient
from workers.invocations.queue import RENEW_SECONDS, FreeSlots, Leased, Queue, Waiting
from workers.invocations.run import Runner
from workers.invocations.store import Store

CHANNEL = "headrace_async"
SCAN_SECONDS = 1.0
GAP_SECONDS = 0.005
BEAT_SECONDS = 2.0
RUNNING_LIMIT = 256
ENDPOINT_BATCH = 32
"""Claims of one endpoint in one round, so that a long queue of one does not keep the others waiting."""

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
        self._pool = AsyncConnectionPool(env.database_url, min_size=1, max_size=POOL_SIZE, open=False, timeout=5)
        self._queue = Queue(self._pool)
        self._upstream = UpstreamClient()
        self._counts = counting.Counts("dispatcher")
        self._runner = Runner(self._queue, Store(env.s3_endpoint_url, env.region), self._upstream, self._counts)
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._running: dict[asyncio.Task[None], Leased] = {}
        self._renew_at = self._beat_at = self._chores_at = 0.0

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what runs has ended or the grace is over."""
        self._is_stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until stopped; a database that is away is waited for."""
        await self._pool.open(wait=False)
        beside = [asyncio.create_task(self._listen()), asyncio.create_task(counting.report(self._counts, self._pool))]
        try:
            while not self._is_stopping:
                try:
                    await self._round()
                except _AWAY as error:
                    log.warning("the queue cannot be reached, trying again: %s", error)
                await self._pause()
            await self._let_end()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await counting.write(self._counts, self._pool)
            self._upstream.close()
            await self._pool.close()

    async def _round(self) -> None:
        """Renew, beat, put right what others left, and claim what there is room for."""
        self._wake.clear()
        await self._keep_leases()
        if clock.monotonic() >= self._chores_at:
            self._chores_at = clock.monotonic() + SCAN_SECONDS
            await self._do_chores()
        for waiting in await self._queue.waiting():
            await self._serve(waiting)

    async def _do_chores(self) -> None:
        """Take back what dead workers held, and tell the failures that time or an earlier attempt decided."""
        await self._queue.reclaim()
        for leased in [*await self._queue.claim_expired(), *await self._queue.claim_decided()]:
            self._start(leased, "", _uncounted())

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
            if leased.id not in held and not task.done():
                log.warning("invocation %s: the lease was lost", leased.id)
                task.cancel()

    async def _serve(self, waiting: Waiting) -> None:
        if waiting.is_gone:
            for leased in await self._queue.claim_of_deleted(waiting.endpoint_id):
                self._start(leased, "", _uncounted())
            return
        room = RUNNING_LIMIT - len(self._running)
        if waiting.route is None or room <= 0:
            return
        places = {t.instance_id: (t.address, variant) for variant in waiting.route.variants for t in variant.targets}
        claimed = await self._queue.claim(waiting, FreeSlots(), min(room, ENDPOINT_BATCH))
        for leased in claimed:
            address, variant = places[str(leased.instance_id)]
            self._start(leased, address, counting.Call(clock.monotonic(), waiting.route, variant, is_async=True))
        if len(claimed) == ENDPOINT_BATCH:
            self._wake.set()

    def _start(self, leased: Leased, address: str, call: counting.Call) -> None:
        task = asyncio.create_task(self._run_one(leased, address, call))
        self._running[task] = leased
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
        """Wait for a reason to look, but never look more often than GAP_SECONDS: a burst is claimed in one round."""
        await asyncio.sleep(GAP_SECONDS)
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
                    async for _ in connection.notifies():
                        self._wake.set()
            except _AWAY as error:
                log.warning("notifications of the queue are interrupted: %s", error)
            await asyncio.sleep(SCAN_SECONDS)


def _uncounted() -> counting.Call:
    """For an invocation whose failure is to be told: no model is asked."""
    return counting.Call(clock.monotonic())
