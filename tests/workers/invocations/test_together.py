"""Calls that are done together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from workers.invocations.together import ENOUGH, Together


class Refused(Exception):
    """The work cannot take an item."""


class Away(Exception):
    """The work cannot be done now."""


class Work:
    """Doubles numbers; its first batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()
        self.refused: set[int] = set()
        self.is_away = False

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.go.wait()
        if self.is_away:
            raise Away("away")
        if self.refused.intersection(items):
            raise Refused("refused")
        return [2 * item for item in items]


def on_a_loop(test: Callable[[Work, Together[int, int]], Awaitable[None]], limit: int = 3) -> None:
    async def run() -> None:
        work = Work()
        await test(work, Together(work, limit=limit, refusals=(Refused,)))

    asyncio.run(run())


async def started(work: Work) -> None:
    """Return once a batch is under way."""
    while not work.batches:
        await asyncio.sleep(0)


def test_a_lone_call_is_done_at_once() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        work.go.set()
        assert await together(4) == 8
        assert work.batches == [[4]]

    on_a_loop(test)


def test_what_comes_while_one_is_under_way_is_done_together_at_most_limit_at_a_time() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        first = asyncio.create_task(together(0))
        await started(work)
        others = [asyncio.create_task(together(item)) for item in range(1, 6)]
        await asyncio.sleep(0)
        work.go.set()
        assert await asyncio.gather(first, *others) == [0, 2, 4, 6, 8, 10]
        assert work.batches == [[0], [1, 2, 3], [4, 5]]

    on_a_loop(test)


def test_a_refused_item_fails_alone() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        work.refused.add(2)
        first = asyncio.create_task(together(0))
        await started(work)
        others = [asyncio.create_task(together(item)) for item in (1, 2, 3)]
        await asyncio.sleep(0)
        work.go.set()
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert found[:2] == [0, 2]
        assert isinstance(found[2], Refused)
        assert found[3] == 6

    on_a_loop(test)


def test_a_fault_of_the_work_is_everybodys_and_the_next_call_finds_it_mended() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        first = asyncio.create_task(together(0))
        await started(work)
        others = [asyncio.create_task(together(item)) for item in (1, 2)]
        await asyncio.sleep(0)
        work.is_away = True
        work.go.set()
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(each) for each in found] == [Away] * 3
        assert len({id(each) for each in found}) == 3
        work.is_away = False
        assert await together(5) == 10

    on_a_loop(test)


def test_work_that_breaks_its_promise_leaves_nobody_waiting() -> None:
    """Too few results are a fault in the program, of which whoever waits must not hang."""

    async def run() -> None:
        async def work(items: Sequence[int]) -> list[int]:
            await go.wait()
            return list(items[1:] if 0 in items else items)

        go = asyncio.Event()
        together: Together[int, int] = Together(work, limit=3)
        callers = [asyncio.create_task(together(item)) for item in (0, 1, 2)]
        await asyncio.sleep(0)
        go.set()
        async with asyncio.timeout(30):
            found = await asyncio.gather(*callers, return_exceptions=True)
            assert [type(each) for each in found] == [ValueError] * 3
            assert await together(7) == 7

    asyncio.run(run())


def test_a_caller_that_goes_away_spoils_nothing_for_the_others() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        first, second = asyncio.create_task(together(0)), asyncio.create_task(together(1))
        await started(work)
        first.cancel()
        work.go.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == 2

    on_a_loop(test)


def gathering(test: Callable[[Work, Together[int, int]], Awaitable[None]], seconds: float) -> None:
    """After a first batch with company."""

    async def run() -> None:
        work = Work()
        work.go.set()
        together = Together(work, limit=100, gather_seconds=seconds)
        await asyncio.gather(together(0), together(0))
        await test(work, together)

    asyncio.run(run())


def test_after_a_batch_with_company_the_next_waits_for_company() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        first = asyncio.create_task(together(1))
        await asyncio.sleep(0)
        assert await asyncio.gather(first, together(2)) == [2, 4]
        assert work.batches[1:] == [[1, 2]]

    gathering(test, 0.3)


def test_enough_of_them_wait_no_longer() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*(together(number) for number in range(ENOUGH)))

    gathering(test, 60.0)


def test_a_lone_call_waits_a_moment_and_no_more() -> None:
    async def test(work: Work, together: Together[int, int]) -> None:
        async with asyncio.timeout(30):
            assert await together(3) == 6

    gathering(test, 0.01)
