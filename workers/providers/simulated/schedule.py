"""Shortages drawn by a seed: the same seed draws the same ones, so that a bad week can be had again."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class CapacityChange:
    """From `at` on, `slots` instances of this type may live in `zone` (`*` = in each)."""

    at: datetime
    instance_type: str
    slots: int
    zone: str = "*"


@dataclass(frozen=True)
class Weather:
    """How often a type is short, and for how long: means of exponential distributions; `slots` when it is not short."""

    plenty_seconds: float
    shortage_seconds: float
    slots: int


def draw_shortages(
    seed: int, instance_types: Iterable[str], weather: Weather, start: datetime, duration_seconds: float
) -> list[CapacityChange]:
    """Plenty and shortage by turns for every type from `start` on, plenty first; ordered by time.

    A type's draws depend on the seed and its own name alone, so adding a type leaves the others as they were.
    """
    end = start + timedelta(seconds=duration_seconds)
    changes: list[CapacityChange] = []
    for instance_type in instance_types:
        dice = random.Random(f"{seed}/{instance_type}")
        at, is_short = start, False
        while at < end:
            changes.append(CapacityChange(at, instance_type, 0 if is_short else weather.slots))
            mean = weather.shortage_seconds if is_short else weather.plenty_seconds
            at, is_short = at + timedelta(seconds=dice.expovariate(1 / mean)), not is_short
    return sorted(changes, key=lambda change: (change.at, change.instance_type))
