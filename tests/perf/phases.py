"""What each statement of a request's life costs, by processor time: in this process, which asks, and in PostgreSQL.

One request at a time is what an idle installation pays, BATCH together what a busy one does; the figures are for one
request. Processor time and not the clock, so that they mean something beside other work.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import uvloop
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.invocations.accept import Acceptor
from controlplane.invocations.accepted import Accepted
from controlplane.invocations.line import Line
from controlplane.invocations.steps import Step
from tests.perf.drive import cpu_seconds
from tests.perf.site import ACCOUNT, BUCKET, Site
from workers.invocations.leased import Leased
from workers.invocations.ledger import MANY, Ledger
from workers.invocations.queue import CLAIMING, Queue

BATCH = 32
WARM, TIMES = 20, {1: 300, BATCH: 60}
PHASES = ("accepted", "claimed", "about to be stored", "completed")
NAME = "bench-phases"


def run(site: Site) -> None:
    """Measure and print."""
    endpoint_id = site.endpoint(NAME, "127.0.0.1:9", max_concurrent=10_000)
    print("\nProcessor time of each statement, microseconds for one request")
    print(f"  {'':20} {'one at a time':>26} {f'{BATCH} together':>26}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = [runner.run(_measured(site, endpoint_id, size)) for size in (1, BATCH)]
    for phase in PHASES:
        cells = [f"asks {1e6 * costs[phase][0]:6.0f}  PG {1e6 * costs[phase][1]:6.0f}" for costs in found]
        print(f"  {phase:20} {cells[0]:>26} {cells[1]:>26}")
    site.forget_requests()


async def _measured(site: Site, endpoint_id: UUID, size: int) -> dict[str, tuple[float, float]]:
    """Seconds of each phase for one request: here, and in PostgreSQL."""
    async with AsyncConnectionPool(
        site.database_url, min_size=1, max_size=1, kwargs={"autocommit": True}, open=False
    ) as pool:
        await pool.wait()
        line, acceptor = Line(site.database_url, *CLAIMING, *MANY), Acceptor(site.database_url)
        life = _Life(Queue(pool, line), Ledger(pool, line), acceptor, endpoint_id, size)
        await life.live(WARM, site)
        spent = await life.live(TIMES[size], site)
        await line.close()
        await acceptor.close()
    count = TIMES[size] * size
    return {phase: (here / count, there / count) for phase, (here, there) in spent.items()}


@dataclass(frozen=True)
class _Life:
    """What is done to requests, `size` of them together."""

    queue: Queue
    ledger: Ledger
    acceptor: Acceptor
    endpoint_id: UUID
    size: int

    async def live(self, times: int, site: Site) -> dict[str, tuple[float, float]]:
        """Do each phase so often before the next one; seconds of processor time of each, here and in PostgreSQL."""
        asked = [[_request(self.endpoint_id) for _ in range(self.size)] for _ in range(times)]
        claimed: list[list[Leased]] = []

        async def claim() -> None:
            claimed.append(await self.queue.claim(self.endpoint_id, self.size, 1))

        works: list[Callable[[int], Awaitable[object]]] = [
            lambda number: self.acceptor.insert(asked[number]),
            lambda number: claim(),
            lambda number: self._start_storing(claimed[number]),
            lambda number: self._complete(claimed[number]),
        ]
        spent = {}
        for phase, work in zip(PHASES, works, strict=True):
            there, here = cpu_seconds(site.data_dir)["postgres"], time.process_time()
            for number in range(times):
                await work(number)
            here = time.process_time() - here
            spent[phase] = here, cpu_seconds(site.data_dir)["postgres"] - there
        return spent

    async def _start_storing(self, claimed: Sequence[Leased]) -> None:
        steps = [(each, each.step(Step.SENT), each.step(Step.ANSWERED, "200")) for each in claimed]
        await asyncio.gather(*(self.ledger.start_storing(*each) for each in steps))

    async def _complete(self, claimed: Sequence[Leased]) -> None:
        steps = [(each, each.step(Step.STORED, each.output_location)) for each in claimed]
        await asyncio.gather(*(self.ledger.complete(*each) for each in steps))


def _request(endpoint_id: UUID) -> Accepted:
    key, now = uuid4(), clock.now()
    return Accepted(
        id=str(key),
        account_id=ACCOUNT,
        endpoint_id=str(endpoint_id),
        endpoint_name=NAME,
        inference_id=str(key),
        content_type="application/json",
        accept="",
        custom_attributes="",
        accepted_at=now,
        expires_at=now + timedelta(hours=6),
        timeout_seconds=900,
        output_location=f"s3://{BUCKET}/out/{key}.out",
        failure_location=f"s3://{BUCKET}/failed/{key}-error.out",
        body=b"x" * 440,
    )
