"""The sweeps, beside the scan: a slow provider keeps neither the scan nor the heartbeat waiting."""

from controlplane.core import clock
from workers.aside import Aside
from workers.sweep import orphans, overdue


class Sweeper:
    """Runs one sweep at a time; `sweeps` is how many were started."""

    def __init__(self) -> None:
        self.sweeps = 0
        self._aside = Aside("sweep", _sweep)

    def start(self) -> None:
        """Start a sweep, unless the one before still runs."""
        if self._aside.start():
            self.sweeps += 1

    def stop(self) -> None:
        """Return when the sweep that runs has ended."""
        self._aside.stop()


def _sweep() -> None:
    overdue.sweep(clock.now())
    orphans.sweep(clock.now())
