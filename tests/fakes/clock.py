"""A clock that moves only when told to, and one that is wrong."""

from datetime import UTC, datetime, timedelta

from controlplane.core.clock import SystemClock

START = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)


class FakeClock:
    """Wall clock and monotonic clock in one; `step` moves both."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._start = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def step(self, seconds: float) -> None:
        """Let this much time pass."""
        self._now += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back; no time passes."""
        self._now += timedelta(seconds=seconds)
        self._start += timedelta(seconds=seconds)


class WrongClock(SystemClock):
    """A host's clock that is `ahead` by so many seconds."""

    ahead = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)
