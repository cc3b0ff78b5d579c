"""Where everything is, as the log of a process says it that was asked."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest
import uvloop

from controlplane.core import stacks


@pytest.fixture
def _as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


async def innermost(event: asyncio.Event) -> None:
    await event.wait()


async def outermost(event: asyncio.Event) -> None:
    await innermost(event)


def test_of_a_task_all_that_it_awaits_is_told_and_of_a_thread_where_it_is() -> None:
    go = threading.Event()

    def wait_for_go() -> None:
        go.wait(60)

    async def main() -> str:
        event = asyncio.Event()
        waits = asyncio.create_task(outermost(event), name="the one that waits")
        await asyncio.sleep(0)
        told = stacks.everything(asyncio.get_running_loop())
        event.set()
        await waits
        return told

    thread = threading.Thread(target=wait_for_go, name="the thread that waits")
    thread.start()
    try:
        told = uvloop.run(main())
    finally:
        go.set()
        thread.join()
    of_task = told.partition("task the one that waits:")[2].partition("\ntask ")[0]
    places = [line.rpartition(" in ")[2] for line in of_task.splitlines() if " in " in line]
    assert places[:3] == ["outermost", "innermost", "wait"]
    assert "awaits" in of_task
    assert "in wait_for_go" in told.partition("thread the thread that waits:")[2]


@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("is_on_a_loop", [True, False], ids=["loop", "no loop"])
def test_a_process_that_is_asked_says_it_in_its_log(is_on_a_loop: bool, caplog: pytest.LogCaptureFixture) -> None:
    stacks.tell_when_asked()

    async def main() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(60):
            while "that is everything" not in caplog.text:
                await asyncio.sleep(0)

    if is_on_a_loop:
        uvloop.run(main())
    else:
        os.kill(os.getpid(), signal.SIGUSR1)
    assert "thread MainThread:" in caplog.text
    assert ("task Task-" in caplog.text) == is_on_a_loop
