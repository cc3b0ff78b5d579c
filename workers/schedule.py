"""The scheduler: finds whatever is due, with no message needed.

    every half second   endpoints whose look is due: ring the workers' doorbell
                        endpoints still due after OVERDUE_SECONDS (no worker came): work on them here
    every second        asynchronous endpoints without instances that something waits for: wake those that ask for it
                        what operators want of the provider: orphans ended or adopted, shortages rehearsed (in a thread)
    every few seconds   heartbeat; alarms and other work on metrics, in a thread of its own
    10 s, later 2 min   orphan sweep and overdue ends, in a thread of their own, since a provider may be slow to answer
                        (dense after the start, when a crash may just have left something behind)
    every hour          retention, in a thread of its own, since a million requests take a while to delete

So the scan alone converges: with the broker down, flushed or deaf, this process does the work itself.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

from django.db import InterfaceError, OperationalError, close_old_connections, connection

from controlplane.core import clock, hints
from controlplane.endpoints import waking
from controlplane.observability import heartbeats
from workers import offers, wishes
from workers.aside import Aside
from workers.loop.lease import due_endpoints
from workers.loop.run import reconcile
from workers.metrics.tender import Tender
from workers.sweep import retention
from workers.sweep.sweeper import Sweeper

SCAN_SECONDS = 0.5
OVERDUE_SECONDS = 3.0
"""How long a doorbell may go unanswered before the scheduler does the work itself."""

RING_AGAIN_SECONDS = 2.0
SCAN_LIMIT = 500
WORKERS = 4

BEAT_SECONDS = 2.0
METRICS_SECONDS = 2.0
WAKE_SECONDS = 1.0
WISH_SECONDS = 1.0
OFFER_SECONDS = 5.0
SWEEP_DENSE_SECONDS = 10.0
SWEEP_DENSE_ROUNDS = 20
SWEEP_SPARSE_SECONDS = 120.0
RETENTION_SECONDS = 3600.0

log = logging.getLogger(__name__)


class Scheduler:
    """One scheduler process; several may run, since whoever works on an endpoint holds its claim."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="overdue")
        self._working: dict[UUID, Future[None]] = {}
        self._rung: dict[UUID, float] = {}
        self._due_at: dict[str, float] = {}
        self._sweeper = Sweeper()
        self._metrics = Tender()
        self._offers = Aside("offers", lambda: offers.tell(clock.now()))
        self._wishes = Aside("wishes", lambda: wishes.carry_out(clock.now()))
        self._retention = Aside("retention", lambda: retention.sweep(clock.now()))

    def stop(self) -> None:
        """End `run` after its current step."""
        self._stopping.set()

    def run(self) -> None:
        """Scan until stopped; a database that is away is waited for."""
        while not self._stopping.wait(SCAN_SECONDS):
            try:
                self.step()
            except (OperationalError, InterfaceError) as error:
                log.warning("the database does not answer, the scan goes on when it does: %s", error)
                connection.close()
        self.finish()

    def finish(self) -> None:
        """Return when everything that runs beside the scan has ended."""
        self._pool.shutdown()
        self._sweeper.stop()
        self._metrics.stop()
        self._offers.stop()
        self._wishes.stop()
        self._retention.stop()

    def step(self) -> None:
        """One scan and whatever chore is due; what time it is comes first."""
        self._chore("beat", BEAT_SECONDS, self._beat)
        self.scan()
        self._chore("wake", WAKE_SECONDS, lambda: waking.wake_due(clock.now()))
        self._chore("wishes", WISH_SECONDS, self._wishes.start)
        self._chore("metrics", METRICS_SECONDS, self._metrics.start_round)
        self._chore("offer", OFFER_SECONDS, self._offers.start)
        dense = self._sweeper.sweeps < SWEEP_DENSE_ROUNDS
        self._chore("sweep", SWEEP_DENSE_SECONDS if dense else SWEEP_SPARSE_SECONDS, self._sweeper.start)
        self._chore("retention", RETENTION_SECONDS, self._retention.start)

    def scan(self) -> None:
        """Ring for endpoints that are due, and work on those for which nobody came."""
        now = clock.now()
        self._working = {key: future for key, future in self._working.items() if not future.done()}
        overdue = now - timedelta(seconds=OVERDUE_SECONDS)
        due = due_endpoints(now, SCAN_LIMIT)
        self._rung = {key: at for key, at in self._rung.items() if clock.monotonic() - at < RING_AGAIN_SECONDS}
        for endpoint_id, due_at in due:
            if due_at <= overdue and endpoint_id not in self._working:
                self._working[endpoint_id] = self._pool.submit(_reconcile_here, endpoint_id)
            elif endpoint_id not in self._rung:
                self._rung[endpoint_id] = clock.monotonic()
                hints.doorbell().ring(hints.RECONCILE, endpoint_id)

    def _beat(self) -> None:
        """Say that this process makes progress, and hear what time it is."""
        clock.told(heartbeats.database_time())
        heartbeats.beat("scheduler", clock.now())

    def _chore(self, name: str, period_seconds: float, chore: Callable[[], object]) -> None:
        """Run `chore` when its period has passed; its first run comes with the first step."""
        if clock.monotonic() >= self._due_at.get(name, 0.0):
            self._due_at[name] = clock.monotonic() + period_seconds
            chore()


def _reconcile_here(endpoint_id: UUID) -> None:
    """Work on one overdue endpoint in a thread of the scheduler."""
    try:
        reconcile(endpoint_id)
    finally:
        close_old_connections()
