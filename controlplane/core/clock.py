"""The one source of time.

Everything that needs the time asks here, so that a test can move it. Naked `datetime.now()`, `time.time()` and
`time.sleep()` are lint errors everywhere else (see `[tool.ruff.lint.flake8-tidy-imports]`).

Wall-clock time (`now`) is for facts that are stored; `monotonic` is for durations inside one process, since the wall
clock may jump.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

TOLERANCE_SECONDS = 0.5
"""A time that was told and is earlier by less is no news: it was under way for a moment."""


class Clock(Protocol):
    """What code that needs the time may ask for."""

    def now(self) -> datetime:
        """The time of day, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes backwards."""
        ...


class SystemClock:
    """The real clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class CarriedClock:
    """Goes by the time of day that it was told, carried on by the host's monotonic clock.

    Leases, deadlines and times to live are written by one host and judged by another. With the database telling all of
    them what time it is, a host whose clock is wrong or jumps ends nothing early and keeps nothing waiting. Until it is
    told, it goes by the host's time of its making.
    """

    def __init__(self, host: Clock | None = None) -> None:
        self._host = host or SystemClock()
        self._told = (self._host.now(), self._host.monotonic())

    def now(self) -> datetime:
        told, since = self._told
        return told + timedelta(seconds=self._host.monotonic() - since)

    def monotonic(self) -> float:
        return self._host.monotonic()

    def tell(self, now: datetime) -> None:
        """Say what time it is, or was a moment ago."""
        ahead = (self.now() - now).total_seconds()
        if ahead < 0 or ahead > TOLERANCE_SECONDS:
            self._told = (now.astimezone(UTC), self._host.monotonic())


_current: Clock = SystemClock()


def now() -> datetime:
    """The time of day, timezone-aware, in UTC."""
    return _current.now()


def monotonic() -> float:
    """Seconds from an arbitrary start; never goes backwards."""
    return _current.monotonic()


def use(clock: Clock) -> Clock:
    """Make `clock` the one everybody reads; returns the one it replaced, so that a test can put it back."""
    global _current
    previous, _current = _current, clock
    return previous


def told(now: datetime) -> None:
    """The database says that it is `now`: of consequence where a CarriedClock is used."""
    if isinstance(_current, CarriedClock):
        _current.tell(now)
