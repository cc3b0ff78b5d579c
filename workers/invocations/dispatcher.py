"""The dispatcher: one asyncio loop in each worker that claims invocations and runs them.

It claims at once what a notification names (see `at_once`), again when a slot of an endpoint with more in its queue is
free (see `appetite`), and looks through all of them every second (see `rounds`): a notification is a hint, the scan is the
truth. An invocation of an hour costs a coroutine, not a slot of the worker.

    a round ----> a pause ----> the next one ... until stopped
       |  the database is away: AGAIN_SECONDS
       v  a fault of its own: logged, FAULT_SECONDS
    the next one
"""

import asyncio
import logging
from contextlib import suppress

from django.conf import settings

from controlplane.core import database
from controlplane.core.keep_going import BackgroundWork, keep_going
from controlplane.gateway import counting
from controlplane.invocations.line import Line
from controlplane.invocations.notices import CHANNEL
from controlplane.routing.upstream import UpstreamClient
from workers.invocations import measures
from workers.invocations.appetite import Appetite
from workers.invocations.crew import AWAY, Crew
from workers.invocations.doorbell import Doorbell, tell
from workers.invocations.inputs import Https, Inputs
from workers.invocations.known_routes import KnownRoutes
from workers.invocations.leased import Leased
from workers.invocations.ledger import MANY
from workers.invocations.notifier import Notifier
from workers.invocations.outbox import Outbox
from workers.invocations.outcomes import Outcomes
from workers.invocations.patient import PatientLedger
from workers.invocations.queue import CLAIMING, Queue
from workers.invocations.reach import NOTICE as UNREACHED_NOTICE
from workers.invocations.reach import Reach
from workers.invocations.redrive import Redriver
from workers.invocations.rounds import Rounds
from workers.invocations.run import Runner
from workers.invocations.store import Store
from workers.invocations.topics import Topics

POOL_SIZE = 8
POOL_SECONDS = 5.0

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
        self._pool = database.pool(env.database_url, min_size=1, max_size=POOL_SIZE, timeout=POOL_SECONDS)
        routes, appetite, reach, wake = KnownRoutes(), Appetite(), Reach(), asyncio.Event()
        for_claims = Line(env.database_url, *CLAIMING, lost=routes.forget)
        for_outcomes = Line(env.database_url, *MANY)
        self._lines = (for_claims, for_outcomes)
        ledger = PatientLedger(self._pool, for_outcomes)
        self._crew = Crew(self._run_leased, appetite, wake.set)
        self._rounds = Rounds(self._pool, Queue(self._pool, for_claims), ledger, self._crew, routes, appetite, reach, wake)
        self._doorbell = Doorbell(env.database_url, CHANNEL, self._rounds.rung)
        self._upstream = UpstreamClient()
        self._counts, self._measures = counting.Counts("dispatcher"), measures.Measures()
        self._store, self._topics = Store(env.s3_endpoint_url, env.region), Topics(env.sns_endpoint_url, env.region)
        self._notifier = Notifier(Outbox(self._pool), self._topics, self._measures)
        told, freed = self._notifier.wake, self._crew.freed
        self._runner = Runner(
            ledger,
            Outcomes(ledger, self._store, self._measures, env.region, told, freed),
            Inputs(self._store, Https(env.input_hosts), env.input_limit_bytes),
            self._upstream,
            self._counts,
            self._measures,
            reach,
            lambda instance_id: tell(self._pool, CHANNEL, f"{UNREACHED_NOTICE}{instance_id}"),
        )

    @property
    def moves(self) -> int:
        """Another number than a while ago, as long as the loop makes progress."""
        return self._rounds.moves

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what runs has ended or the grace is over."""
        self._rounds.stop()

    async def run(self) -> None:
        """Work until stopped; a database that is away is waited for."""
        await self._pool.open(wait=False)
        for line in self._lines:
            line.open()
        beside = [asyncio.create_task(keep_going(work)) for work in self._beside()]
        try:
            while not self._rounds.is_stopping:
                await self._round()
            await self._rounds.end()
            await self._crew.let_end()
            with suppress(*AWAY):  # then the leases run out
                await self._rounds.give_back()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._close()

    def _beside(self) -> list[BackgroundWork]:
        """What goes on beside the rounds."""
        return [
            self._doorbell.run,
            lambda: counting.report(self._counts, self._pool),
            lambda: measures.report(self._measures, self._pool),
            self._notifier.run,
            Redriver(self._pool, self._store).run,
        ]

    async def _round(self) -> None:
        """One round and the pause after it, or after the fault by which it ended."""
        try:
            await self._rounds.work()
            await self._rounds.pause()
        except AWAY as error:
            log.warning("the queue cannot be reached, trying again: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)
        except Exception:
            # Without its rounds the worker would beat no more, and claim nothing. What this one leased runs out.
            log.exception("a round of the dispatcher failed, and the next one follows")
            self._rounds.routes.forget()
            await asyncio.sleep(FAULT_SECONDS)

    async def _close(self) -> None:
        await counting.write(self._counts, self._pool)
        await measures.write(self._measures, self._pool)
        self._upstream.close()
        self._store.close()
        self._topics.close()
        for line in self._lines:
            await line.close()
        await self._pool.close()

    async def _run_leased(self, leased: Leased, address: str, call: counting.Call) -> None:
        await self._runner.run(leased, address, call)
