"""The one source of time.

Everything that needs the time asks here, so that a test can move it. Naked `datetime.now()`, `time.time()` and
`time.sleep()` are lint errors everywhere else (see `[tool.ruff.lint.flake8-tidy-imports]`).

Wall-clock time (`now`) is for facts that are stored; `monotonic` is for durations inside one process, since the wall
clock may jump.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


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
