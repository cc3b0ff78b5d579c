"""A redrive that nobody expected to fail as it does: those that come later are carried through all the same."""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tests.workers.invocations.site import Bench, bench, do, queue_up
from workers.invocations.redrive import Redriver

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Odd:
    """Objects of which one cannot be removed, in a way that no store has shown yet."""

    bad: str
    asked: list[str] = field(default_factory=list)

    async def remove(self, location: str) -> None:
        self.asked.append(location)
        if location == self.bad:
            raise ValueError(location)


async def state_of(site: Bench, request_id: UUID) -> str:
    """The state of a request, over the loop's own connections."""
    async with site.pool.connection() as connection:
        done = await connection.execute("SELECT state FROM invocations_asyncinvocation WHERE id = %s", [request_id])
        [[state]] = await done.fetchall()
    return str(state)


def test_one_that_raises_what_nobody_knows_ends_no_loop() -> None:
    bad, good = queue_up(state="redriving"), queue_up(state="failed")
    objects = Odd(bad.failure_location)

    async def work() -> None:
        async with bench(bad.endpoint_id) as site, asyncio.timeout(60):
            running = asyncio.create_task(Redriver(site.pool, objects).run())
            while not objects.asked:
                await asyncio.sleep(0.02)
            await site.pool_do(f"UPDATE invocations_asyncinvocation SET state = 'redriving' WHERE id = '{good.pk}'")
            while await state_of(site, good.pk) != "queued":
                await asyncio.sleep(0.05)
            assert not running.done()
            running.cancel()

    do(work())
    bad.refresh_from_db()
    assert bad.state == "redriving"  # due again when its claim is over
    assert objects.asked == [bad.failure_location, good.failure_location]
