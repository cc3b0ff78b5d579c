"""Bounds on waiting."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controlplane.gateway.patience import Patience
from tests.fakes.clock import FakeClock
from tests.fakes.loop import run


async def drip(pause_seconds: float) -> AsyncIterator[bytes]:
    """A peer that never stalls for long and never comes to an end."""
    while True:
        await asyncio.sleep(pause_seconds)
        yield b"."


def test_a_peer_that_drips_runs_out_of_time_like_one_that_is_silent(fake_clock: FakeClock) -> None:
    got: list[bytes] = []

    async def read() -> None:
        async for piece in Patience(0.1).over(drip(0.01)):
            got.append(piece)  # noqa: PERF401 - what came before the end is what is looked at

    with pytest.raises(TimeoutError):
        run(fake_clock, read())
    assert len(got) == 9


def test_time_spent_elsewhere_is_not_counted(fake_clock: FakeClock) -> None:
    async def read() -> int:
        count = 0
        async for _ in Patience(0.2).over(drip(0.001)):
            await asyncio.sleep(0.05)
            count += 1
            if count == 10:
                break
        return count

    assert run(fake_clock, read()) == 10


def test_the_time_left_is_what_earlier_waits_left_over(fake_clock: FakeClock) -> None:
    async def wait() -> None:
        patience = Patience(0.1)
        assert await patience.wait(asyncio.sleep(0.06, "first")) == "first"
        with pytest.raises(TimeoutError):
            await patience.wait(asyncio.sleep(0.06))
        with pytest.raises(TimeoutError):
            await patience.wait(asyncio.sleep(0.06))

    run(fake_clock, wait())


def test_an_iterator_that_ends_in_time_ends(fake_clock: FakeClock) -> None:
    async def three() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x"

    async def read() -> bytes:
        return b"".join([piece async for piece in Patience(1).over(three())])

    assert run(fake_clock, read()) == b"xxx"
