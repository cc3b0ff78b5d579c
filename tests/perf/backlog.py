"""What a long queue costs: the time to find and to claim work, and the memory of a gateway and a worker beside it.

Both must stay flat from a thousand queued requests to a million. The requests are put there by COPY, and those that are
claimed are given back, so that each size is measured with all of it due.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.invocations.line import Line
from tests.perf.site import Site, wait_for
from workers.invocations.queue import CLAIMING, Queue

SIZES = (1_000, 10_000, 100_000, 1_000_000)
CLAIMS = 30
BATCH = 32
REST_SECONDS = 5.0
"""How long gateway and worker stand beside the queue before their memory is read."""

_GIVE_BACK = """
UPDATE invocations_asyncinvocation
SET state = 'queued', lease_token = NULL, lease_expires_at = NULL, instance_id = NULL, attempts = 0, timeline = '[]'
WHERE state = 'running'
"""


def run(site: Site) -> None:
    """Measure and print."""
    name = "bench-backlog"
    # An instance with room for everything that is claimed, at an address where nobody answers.
    endpoint_id = site.endpoint(name, "127.0.0.1:9", max_concurrent=10 * CLAIMS * BATCH)
    print(f"\nA long queue (medians of {CLAIMS}; claims of {BATCH})")
    print(f"  {'queued':>10} {'look':>10} {'claim':>10} {'expired?':>10} {'gateway':>10} {'worker':>10}")
    queued = 0
    for size in SIZES:
        site.queue_up(endpoint_id, name, size - queued)
        queued = size
        with site.database() as connection:
            connection.execute("VACUUM ANALYZE invocations_asyncinvocation")
        times = asyncio.run(_times(site.database_url, endpoint_id))
        with site.database() as connection:
            connection.execute(_GIVE_BACK)
        cells = [f"{seconds * 1000:8.2f} ms" for seconds in times] + [f"{size_:7,.0f} MB" for size_ in _memory(site)]
        print(f"  {size:>10,} {' '.join(cells)}", flush=True)
    site.forget_requests()


async def _times(database_url: str, endpoint_id: UUID) -> list[float]:
    """Seconds to find the endpoints that wait, to claim a batch, and to find that nothing has expired."""
    async with AsyncConnectionPool(database_url, min_size=1, max_size=2, kwargs={"autocommit": True}, open=False) as pool:
        await pool.wait()
        line = Line(database_url, *CLAIMING)
        queue = Queue(pool, line)
        try:
            return [
                await _median(queue.waiting),
                await _median(lambda: queue.claim(endpoint_id, BATCH)),
                await _median(lambda: queue.claim_expired(BATCH)),
            ]
        finally:
            await line.close()


async def _median(work: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(CLAIMS):
        began = clock.monotonic()
        await work()
        took.append(clock.monotonic() - began)
    return statistics.median(took)


def _memory(site: Site) -> list[float]:
    """Megabytes that a fresh gateway and a fresh worker take once they have stood beside the queue for a while."""
    site.start_gateway()
    site.start_worker()
    wait_for(lambda: _has_beaten(site))
    until = clock.monotonic() + REST_SECONDS
    wait_for(lambda: clock.monotonic() >= until)
    found = [_resident_bytes(site.processes[role].pid) / 1e6 for role in ("gateway", "worker")]
    site.stop("gateway")
    site.stop("worker")
    return found


def _has_beaten(site: Site) -> bool:
    with site.database() as connection:
        query = "SELECT count(*) FROM observability_heartbeat WHERE role = 'worker' AND seen_at > now() - interval '3 s'"
        row = connection.execute(query).fetchone()
    return bool(row and row[0])


def _resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
