"""Capacity over time, worked out before the start: what a scenario's shortages and flapping types come to."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.core.offerings import ON_DEMAND, SPOT
from workers.providers.simulated.schedule import Weather, draw_shortages
from workers.simulator.scenario import Flapping, InstanceType, Scenario

Key = tuple[str, str, str]
"""Instance type, zone, market: what has slots and what a mark closes."""


@dataclass(frozen=True)
class Change:
    """From `at` on, at most `slots` instances of `key` may be launched."""

    at: datetime
    key: Key
    slots: int


@dataclass(frozen=True)
class _Spell:
    """`slots` from `start` to `end`, seconds from the scenario's start."""

    start: float
    end: float
    slots: int


def changes(scenario: Scenario, start: datetime) -> list[Change]:
    """Every change of capacity of the scenario, ordered by time; the first ones, at `start`, name every key."""
    found = [change for each in scenario.types for change in _of_type(each, scenario, start)]
    return sorted(found, key=lambda change: (change.at, change.key))


def _of_type(each: InstanceType, scenario: Scenario, start: datetime) -> Iterator[Change]:
    for zone in scenario.zones:
        flaps = _flaps(each, zone, scenario, start) if each.flapping else []
        for market, slots in ((ON_DEMAND, each.slots), (SPOT, each.spot_slots)):
            spells = flaps + [
                _Spell(short.start, short.end, short.slots)
                for short in each.shortages
                if (not short.zones or zone in short.zones) and (not short.market or short.market == market)
            ]
            for at, left in _steps(spells, slots, scenario.duration):
                yield Change(start + timedelta(seconds=at), (each.name, zone, market), left)


def _flaps(each: InstanceType, zone: str, scenario: Scenario, start: datetime) -> list[_Spell]:
    """The dry spells of a flapping type in one zone; they depend on the seed and on these two names alone."""
    flapping: Flapping | None = each.flapping
    if flapping is None or (flapping.zones and zone not in flapping.zones):
        return []
    weather = Weather(flapping.plenty, flapping.shortage, slots=1)
    drawn = draw_shortages(scenario.seed, [f"{each.name}/{zone}"], weather, start, scenario.duration)
    times = [((change.at - start).total_seconds(), change.slots) for change in drawn]
    times.append((scenario.duration, 1))
    return [_Spell(at, times[place + 1][0], 0) for place, (at, slots) in enumerate(times[:-1]) if slots == 0]


def _steps(spells: list[_Spell], slots: int, duration: float) -> Iterator[tuple[float, int]]:
    """When the number of slots changes and to what: the least of what the spells at that time leave."""
    edges = sorted({0.0} | {edge for spell in spells for edge in (spell.start, spell.end) if edge < duration})
    to_come = sorted(spells, key=lambda spell: spell.start, reverse=True)
    running: list[tuple[int, float]] = []
    before: int | None = None
    for edge in edges:
        while to_come and to_come[-1].start <= edge:
            spell = to_come.pop()
            heapq.heappush(running, (spell.slots, spell.end))
        # The tightest spell decides; one that is over and lies deeper in the heap does no harm until it comes up.
        while running and running[0][1] <= edge:
            heapq.heappop(running)
        left = min(slots, running[0][0]) if running else slots
        if left != before:
            yield edge, left
        before = left
