"""An event loop in the time of the fake clock: where another waits, it lets that time pass."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.fakes.clock import FakeClock

T = TypeVar("T")

LEAST_SECONDS = 0.000_001
"""The clock counts microseconds."""


class _Stepping(selectors.DefaultSelector):
    """Steps the clock to whatever is due next instead of waiting for it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; with a timeout, and nothing ready, the time passes at once."""
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self._clock.step(timeout + LEAST_SECONDS)
        return ready


class SteppingLoop(asyncio.SelectorEventLoop):
    """A loop whose sleeps take no time, for what waits for nothing outside of it."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_Stepping(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.monotonic()


def run(clock: FakeClock, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in the clock's time."""
    with asyncio.Runner(loop_factory=lambda: SteppingLoop(clock)) as runner:
        return runner.run(work)
