"""What runs on a dispatcher's loop: places, slots, and leases that were lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg
import pytest

from controlplane.gateway.counting import Call
from workers.invocations import crew as crew_module
from workers.invocations.appetite import Appetite
from workers.invocations.crew import RUNNING_LIMIT, TELLING_LIMIT, Crew
from workers.invocations.leased import Leased

HERE = UUID(int=1)
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def leased(endpoint_id: UUID = HERE) -> Leased:
    """A request that was claimed."""
    return Leased(
        *(uuid4(), "123456789012", endpoint_id, "e", "main", "", "", "", "i", "", 1, NOW, NOW, NOW, 900, "s3://b/o", ""),
        *({}, False, "", "", uuid4(), uuid4()),
    )


@dataclass
class Runs:
    """Runs until it is told to end; says that a slot is free before that, if asked to."""

    crew: "Crew" = field(init=False)
    frees: bool = False
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, one: Leased, address: str, call: Call) -> None:
        if self.frees:
            self.crew.freed(one)
        await self.end.wait()


def with_crew(test: Callable[[Crew, Runs, Appetite], Awaitable[None]]) -> None:
    async def run() -> None:
        appetite, runs = Appetite(), Runs()
        runs.crew = Crew(runs, appetite, lambda: None)
        await test(runs.crew, runs, appetite)

    asyncio.run(run())


async def shrunk(crew: Crew, size: int) -> None:
    while crew.size > size:
        await asyncio.sleep(0)


async def settled(crew: Crew) -> None:
    await shrunk(crew, 0)


def hungry(appetite: Appetite, held: int) -> None:
    appetite.claimed(HERE, got=held, room=64, slots=held, held=held, now=0.0)


def test_one_endpoint_leaves_room_for_the_others() -> None:
    async def test(crew: Crew, runs: Runs, appetite: Appetite) -> None:
        for _ in range(crew.room(HERE)):
            crew.take(leased(), "", Call(0.0))
        assert crew.held(HERE) == RUNNING_LIMIT // 2
        assert crew.room(UUID(int=2)) > 100
        runs.end.set()
        await settled(crew)
        assert crew.held(HERE) == 0

    with_crew(test)


def test_failures_that_are_told_take_places_of_their_own() -> None:
    async def test(crew: Crew, runs: Runs, appetite: Appetite) -> None:
        before = crew.room(HERE)
        crew.tell(leased() for _ in range(TELLING_LIMIT))
        assert (crew.room_to_tell, crew.room(HERE)) == (0, before)
        runs.end.set()
        await settled(crew)
        assert crew.room_to_tell == TELLING_LIMIT

    with_crew(test)


def test_a_slot_is_free_once_however_its_request_leaves() -> None:
    """One whose answer is stored frees it before it leaves; one that is retried frees it by leaving."""

    async def count(crew: Crew, runs: Runs, appetite: Appetite, *, frees: bool) -> list[bool]:
        runs.frees, runs.end = frees, asyncio.Event()
        crew.take(leased(), "", Call(0.0))
        crew.take(leased(), "", Call(0.0))  # so that the last of them is not the reason
        hungry(appetite, 2)
        seen = []
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(bool(appetite.take()))
        first = next(iter(crew._tasks))
        first.cancel()
        await asyncio.wait([first])
        await asyncio.sleep(0)
        seen.append(bool(appetite.take()))
        runs.end.set()
        await settled(crew)
        appetite.take()
        return seen

    async def test(crew: Crew, runs: Runs, appetite: Appetite) -> None:
        assert await count(crew, runs, appetite, frees=True) == [True, False]
        assert await count(crew, runs, appetite, frees=False) == [False, True]

    with_crew(test)


def test_a_request_whose_lease_was_lost_is_stopped_and_the_others_go_on() -> None:
    async def test(crew: Crew, runs: Runs, appetite: Appetite) -> None:
        kept, lost, ending, later = (leased() for _ in range(4))
        for each in (kept, lost, ending):
            crew.take(each, "", Call(0.0))
        asked_for = crew.leases
        crew.take(later, "", Call(0.0))
        await asyncio.sleep(0)
        crew.drop_lost(asked_for, {(kept.id, kept.lease_token)}, lambda each: each is ending)
        await shrunk(crew, 3)
        assert {each.id for each in crew.leases} == {kept.id, ending.id, later.id}
        runs.end.set()
        await settled(crew)

    with_crew(test)


def test_those_that_leave_without_an_outcome_are_abandoned_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "GRACE_SECONDS", 0.0)
    faults: dict[UUID, BaseException] = {}

    async def run(one: Leased, address: str, call: Call) -> None:
        if one.id in faults:
            raise faults[one.id]
        if address:
            await asyncio.Event().wait()

    async def test() -> None:
        crew = Crew(run, Appetite(), lambda: None)
        unwritten, failed, cancelled, done, lost, late = (leased() for _ in range(6))
        faults.update({unwritten.id: psycopg.OperationalError("away"), failed.id: ZeroDivisionError("a bug")})
        faults[cancelled.id] = asyncio.CancelledError("by what it waited for")
        for each in (unwritten, failed, cancelled, done):
            crew.take(each, "", Call(0.0))
        for each in (lost, late):
            crew.take(each, "somewhere", Call(0.0))
        await shrunk(crew, 2)
        assert [each.id for each in crew.abandoned] == [unwritten.id, failed.id, cancelled.id]
        crew.drop_lost(crew.leases, {(late.id, late.lease_token)}, lambda each: False)
        await shrunk(crew, 1)
        await crew.let_end()
        assert [each.id for each in crew.abandoned] == [unwritten.id, failed.id, cancelled.id, late.id]
        assert crew.size == 0

    asyncio.run(test())
