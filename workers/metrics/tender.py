"""Tending metrics in a thread of its own: no scan for due endpoints waits for it, and no fault of it ends the scheduler."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError

from controlplane.core import clock
from workers.aside import Aside
from workers.metrics import alarms, backlog, join

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chore:
    """What is to be done every `period_seconds`."""

    name: str
    period_seconds: float
    run: Callable[[datetime], int]


CHORES = (Chore("alarms", 2.0, alarms.evaluate_due), Chore("backlog", 10.0, backlog.sample), Chore("join", 10.0, join.join))


class Tender:
    """Runs one round of chores at a time; a round that is still running makes the next one wait for its turn."""

    def __init__(self, chores: Sequence[Chore] = CHORES) -> None:
        self._chores = chores
        self._aside = Aside("metrics", self.run_round)
        self._due_at: dict[str, float] = {}

    def start_round(self) -> None:
        """Start a round, unless the one before still runs."""
        self._aside.start()

    def stop(self) -> None:
        """Return when the round that runs has ended."""
        self._aside.stop()

    def run_round(self) -> None:
        """Whatever is due, here and now."""
        for chore in self._chores:
            self._run(chore)

    def _run(self, chore: Chore) -> None:
        if clock.monotonic() < self._due_at.get(chore.name, 0.0):
            return
        self._due_at[chore.name] = clock.monotonic() + chore.period_seconds
        try:
            chore.run(clock.now())
        except (OperationalError, InterfaceError) as error:
            log.warning("metrics: %s waits for the database: %s", chore.name, error)
        except Exception:
            log.exception("metrics: %s failed and is tried again", chore.name)
