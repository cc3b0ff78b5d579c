"""The provider of a simulation: slots by key, outages, and what becomes of every instance it starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from controlplane.core.offerings import SPOT
from workers.simulator.scenario import AMBIGUOUS, DAY, Group, InstanceType, Outage
from workers.simulator.weather import Key

NOTICE_OF_INTERRUPTION_SECONDS = 120.0
"""Between the announcement and the end of a spot instance; EC2 gives as long."""

STOP_SECONDS = 20.0
"""From a terminate to the provider's no longer knowing the instance."""


class Answer(StrEnum):
    """What a launch call comes to."""

    LAUNCHED = "launched"
    REFUSED = "refused"
    THROTTLED = "throttled"
    LOST = "lost"
    """No answer came; whether it happened is known by the token."""


@dataclass(frozen=True)
class Fate:
    """An instance from its launch on. `exits_before_ready`: it exits at `ready_at` instead of serving."""

    key: Key
    launched_at: datetime
    runs_at: datetime
    ready_at: datetime
    exits_before_ready: bool = False
    crashes_at: datetime | None = None
    interrupted_at: datetime | None = None


class World:
    """Slots and outages; instances that were launched without anybody being told, by token."""

    def __init__(self, types: Sequence[InstanceType], outages: Sequence[Outage], start: datetime) -> None:
        self._types = {each.name: each for each in types}
        self._outages = [
            (start + timedelta(seconds=each.start), start + timedelta(seconds=each.end), each) for each in outages
        ]
        self._slots: dict[Key, int] = {}
        self._taken: dict[Key, int] = {}
        self._untold: dict[str, Fate] = {}

    def set_slots(self, key: Key, slots: int) -> int:
        """From now on so many may be launched; returns how many live beyond that (0 = none)."""
        self._slots[key] = slots
        return max(self._taken.get(key, 0) - slots, 0)

    def taken(self, key: Key) -> int:
        """How many live."""
        return self._taken.get(key, 0)

    def price(self, key: Key) -> float:
        """US dollars per hour."""
        each = self._types[key[0]]
        return each.spot_price if key[2] == SPOT else each.price

    def launch(self, token: str, key: Key, group: Group, dice: Random, now: datetime) -> tuple[Answer, Fate | None]:
        """A launch call that starts now; the same token never starts a second instance."""
        outage = self._outage(now)
        if outage is not None and outage.kind != AMBIGUOUS:
            return Answer.THROTTLED, None
        if outage is not None:
            if token not in self._untold and dice.random() < outage.happened and self._has_room(key):
                self._untold[token] = self._start(key, group, dice, now)
            return Answer.LOST, None
        untold = self._untold.pop(token, None)
        if untold is not None:
            return Answer.LAUNCHED, untold
        if not self._has_room(key):
            return Answer.REFUSED, None
        return Answer.LAUNCHED, self._start(key, group, dice, now)

    def find(self, token: str) -> Fate | None:
        """The instance that a lost call started, if it did; listings answer during outages too, and never lag."""
        return self._untold.pop(token, None)

    def release(self, key: Key) -> None:
        """An instance is gone: its slot is free."""
        self._taken[key] -= 1

    def _outage(self, now: datetime) -> Outage | None:
        return next((each for start, end, each in self._outages if start <= now < end), None)

    def _has_room(self, key: Key) -> bool:
        return self._taken.get(key, 0) < self._slots.get(key, 0)

    def _start(self, key: Key, group: Group, dice: Random, now: datetime) -> Fate:
        self._taken[key] = self._taken.get(key, 0) + 1
        return self._fate(key, group, dice, now)

    def _fate(self, key: Key, group: Group, dice: Random, now: datetime) -> Fate:
        each = self._types[key[0]]
        runs_at = now + timedelta(seconds=_spread(each.boot_seconds, each.boot_spread, dice))
        ready_at = runs_at + timedelta(seconds=_spread(group.startup_seconds, group.startup_spread, dice))
        is_spot = key[2] == SPOT
        return Fate(
            key,
            now,
            runs_at,
            ready_at,
            exits_before_ready=dice.random() < group.failed_starts,
            crashes_at=_sometime(ready_at, group.crashes_per_day, dice),
            interrupted_at=_sometime(runs_at, each.interruptions_per_day, dice) if is_spot else None,
        )


def _spread(mean: float, share: float, dice: Random) -> float:
    """Evenly within +- `share` of the mean."""
    return mean * (1 + share * (2 * dice.random() - 1))


def _sometime(start: datetime, per_day: float, dice: Random) -> datetime | None:
    """When a rare thing happens that has this rate from `start` on; None beyond every scenario's end."""
    if not per_day:
        return None
    seconds = dice.expovariate(per_day / DAY)
    return start + timedelta(seconds=seconds) if seconds < 400 * DAY else None
