"""Each who waits is told once, whatever happens to the others."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from controlplane.core.errors import ServiceUnavailable
from controlplane.invocations import waiting as waiting_room
from controlplane.invocations.accepted import Accepted
from controlplane.invocations.waiting import WaitingRoom

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def request() -> Accepted:
    key, endpoint = str(uuid4()), str(uuid4())
    return Accepted(key, "123456789012", endpoint, "e", "i", "", "", "", NOW, NOW, 900, "s3://b/o", "", b"x")


def run(talk: Callable[[WaitingRoom], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await talk(WaitingRoom())

    asyncio.run(main())


@pytest.mark.parametrize("fault", [None, ValueError("bad")], ids=["durable", "refused"])
def test_who_waits_is_told_how_it_ended_and_nothing_after_that(fault: BaseException | None) -> None:
    async def talk(room: WaitingRoom) -> None:
        told: list[BaseException | None] = []
        waiting = room.enter(request(), told.append)
        assert waiting in room
        room.tell(waiting, fault)
        assert waiting not in room
        room.tell(waiting, RuntimeError("once more"))
        assert told == [fault]

    run(talk)


def test_who_has_left_is_told_nothing() -> None:
    async def talk(room: WaitingRoom) -> None:
        told: list[BaseException | None] = []
        waiting = room.enter(request(), told.append)
        room.leave(waiting)
        room.leave(waiting)
        room.tell(waiting, None)
        assert (waiting in room, told) == (False, [])

    run(talk)


def test_each_is_told_in_time_that_it_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 0.03)

    async def talk(room: WaitingRoom) -> None:
        loop = asyncio.get_running_loop()

        async def told_after() -> float:
            since, told = loop.time(), loop.create_future()
            room.enter(request(), told.set_result)
            assert isinstance(await told, ServiceUnavailable)
            return loop.time() - since

        async def after_another() -> float:
            await told_after()
            return await told_after()  # nobody else waits by then

        waits = await asyncio.gather(told_after(), told_after(), after_another())
        assert 0.03 <= min(waits) <= max(waits) < 20

    run(talk)


def test_a_fault_in_telling_one_is_logged_and_the_next_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(room: WaitingRoom) -> None:
        told: list[BaseException | None] = []
        first, second = room.enter(request(), told.remove), room.enter(request(), told.append)
        for waiting in (first, second):
            room.tell(waiting, None)
        assert told == [None]
        assert f"whoever asked for request {first.request.id} could not be told" in caplog.text

    with caplog.at_level(logging.ERROR):
        run(talk)
