"""From changes to what can be drawn: means over equal spans of time. Pure."""

from collections.abc import Iterable, Sequence


def means(changes: Iterable[tuple[float, int]], duration: float, bins: int) -> list[float]:
    """The mean level in each of `bins` equal spans of [0, duration), from (time, change) in any order, starting at 0."""
    sums = [0.0] * bins
    width = duration / bins
    level, since = 0, 0.0
    for at, change in sorted([*changes, (duration, 0)]):
        _spread(sums, level, since, min(at, duration), width)
        level, since = level + change, at
    return [total / width for total in sums]


def _spread(sums: list[float], level: int, start: float, end: float, width: float) -> None:
    """Add `level` from `start` to `end` to the spans it covers, by how much of each it covers."""
    if not level or end <= start:
        return
    first = min(int(start / width), len(sums) - 1)
    last = min(int(end / width), len(sums) - 1)
    for place in range(first, last + 1):
        covered = min(end, (place + 1) * width) - max(start, place * width)
        sums[place] += level * max(covered, 0.0)


def counts(times: Iterable[float], duration: float, bins: int) -> list[int]:
    """How many of these times lie in each of `bins` equal spans of [0, duration]."""
    found = [0] * bins
    for at in times:
        found[min(int(at / duration * bins), bins - 1)] += 1
    return found


def stacked(layers: Sequence[Sequence[float]]) -> list[list[float]]:
    """The upper edge of each layer when the layers stand on each other, the first at the bottom."""
    edges: list[list[float]] = []
    below = [0.0] * (len(layers[0]) if layers else 0)
    for layer in layers:
        below = [lower + height for lower, height in zip(below, layer, strict=True)]
        edges.append(below)
    return edges


def nice_steps(high: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 on, about `wanted` of them, the last at or above `high`."""
    if high <= 0:
        return [0.0, 1.0]
    rough, power = high / wanted, 1.0
    while power * 10 <= rough:
        power *= 10
    while power > rough and power > 1:
        power /= 10
    step = next((power * times for times in (1, 2, 5, 10) if power * times >= rough), power * 10)
    step = max(step, 1.0)
    count = int(-(-high // step))
    return [step * place for place in range(count + 1)]
