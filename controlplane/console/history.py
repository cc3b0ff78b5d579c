"""How many instances of each type there were over time, from when they came and went. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

SPANS = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
"""How far back the chart looks: a day, or less while the installation is younger."""

STEPS = 96

TYPES_SHOWN = 7
"""Types beyond these, the most numerous, are one line."""

OTHERS = "others"

COLOURS = TYPES_SHOWN + 1
"""Of console.js's palette; the last of them is that of OTHERS."""


@dataclass(frozen=True)
class Window:
    """A stretch of time in steps of equal length; step 0 ends at `start` + `step`."""

    start: datetime
    step: timedelta
    steps: int

    def moment(self, place: int) -> datetime:
        """The end of a step."""
        return self.start + self.step * (place + 1)


@dataclass(frozen=True)
class Change:
    """So many instances of a type more (or, below 0, fewer) within a step."""

    instance_type: str
    step: int
    delta: int


@dataclass(frozen=True)
class Line:
    """A type and its count at the end of each step."""

    name: str
    values: tuple[int, ...]


def window_before(now: datetime, first_launch: datetime | None) -> Window:
    """The shortest of SPANS that holds the first launch, up to now."""
    age = now - first_launch if first_launch else timedelta(0)
    span = next((each for each in SPANS if each >= age), SPANS[-1])
    return Window(now - span, span / STEPS, STEPS)


def lines(window: Window, at_start: Mapping[str, int], changes: Iterable[Change]) -> tuple[Line, ...]:
    """One line a type, the most numerous first; types that had no instance in the window are left out."""
    by_type: dict[str, Counter[int]] = {name: Counter() for name in at_start}
    for change in changes:
        by_type.setdefault(change.instance_type, Counter())[min(max(change.step, 0), window.steps - 1)] += change.delta
    found = [Line(name, _walk(at_start.get(name, 0), deltas, window.steps)) for name, deltas in by_type.items()]
    found = sorted((line for line in found if any(line.values)), key=lambda line: (-max(line.values), line.name))
    if len(found) <= TYPES_SHOWN + 1:
        return tuple(found)
    rest = zip(*(line.values for line in found[TYPES_SHOWN:]), strict=True)
    return (*found[:TYPES_SHOWN], Line(OTHERS, tuple(sum(values) for values in rest)))


def colours(names: Iterable[str]) -> dict[str, int]:
    """Each name's place in the palette: the one that its letters give, or the next that nobody has taken.

    So a type keeps its colour while counts, and with them the order of the lines, change; a new type can move only those
    whose letters give the same place. `names` are COLOURS at most.
    """
    found: dict[str, int] = {}
    for name in sorted(names, key=lambda name: (name != OTHERS, name)):
        place = COLOURS - 1 if name == OTHERS else crc32(name.encode()) % COLOURS
        while place in found.values():
            place = (place + 1) % COLOURS
        found[name] = place
    return found


def _walk(count: int, deltas: Mapping[int, int], steps: int) -> tuple[int, ...]:
    values = []
    for step in range(steps):
        count += deltas.get(step, 0)
        values.append(max(count, 0))
    return tuple(values)
