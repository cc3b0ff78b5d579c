"""Background work that is told to end, ends."""

import asyncio

from controlplane.gateway.ending import AGAIN_SECONDS, end
from tests.fakes.clock import FakeClock
from tests.fakes.loop import run


async def deaf(times: int) -> None:
    """Forgets so many cancellations, as a wait does that is over at the same moment."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if times == 0:
                raise
            times -= 1


def test_a_task_that_forgets_a_cancellation_is_told_again(fake_clock: FakeClock) -> None:
    async def work() -> bool:
        task = asyncio.create_task(deaf(2))
        await asyncio.sleep(0)
        await end(task)
        return task.cancelled()

    assert run(fake_clock, work())
    assert fake_clock.monotonic() < 3 * AGAIN_SECONDS


def test_a_task_gets_the_time_that_its_end_takes(fake_clock: FakeClock) -> None:
    done: list[str] = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(AGAIN_SECONDS / 2)
            done.append("tidied")

    async def work() -> None:
        task = asyncio.create_task(tidy())
        await asyncio.sleep(0)
        await end(task)

    run(fake_clock, work())
    assert done == ["tidied"]


def test_a_task_that_has_ended_is_let_be(fake_clock: FakeClock) -> None:
    async def work() -> None:
        task = asyncio.create_task(asyncio.sleep(0))
        await task
        await end(task)

    run(fake_clock, work())
