"""The fleet as a honeycomb: one cell an instance, laid out here, drawn by a template. Pure.

by endpoint or by type   one small comb a group, with its name, while there are at most GROUPS_NAMED groups
more groups              one comb, the cells in the order of their groups
more than CELLS cells    one comb, a cell for up to so many instances of one type in one stage (`per_cell`)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, sqrt

CELLS = 1500
"""More cells than this say less, and cost a browser more."""

GROUPS_NAMED = 48

RADIUS = 9.0
"""Of a cell, in pixels: from its middle to its points, at the top and the bottom."""

ACROSS = RADIUS * sqrt(3)
DOWN = RADIUS * 1.5
STAGES = ("overdue", "pending", "starting", "ready", "draining", "terminating")
"""In the order in which they are told apart at a glance; `overdue` is an end that should have come by now."""


@dataclass(frozen=True)
class Bee:
    """One instance (or several alike): its group, its stage, what a pointer is told, and the endpoint it belongs to."""

    group: str
    stage: str
    title: str
    account_id: str = ""
    endpoint: str = ""


@dataclass(frozen=True)
class Cell:
    """A bee in its place, in pixels from the comb's upper left."""

    x: float
    y: float
    bee: Bee


@dataclass(frozen=True)
class Comb:
    """A group's cells, with the size of the picture in pixels; `name` is empty where one comb holds all groups."""

    name: str
    account_id: str
    endpoint: str
    cells: tuple[Cell, ...]
    width: float
    height: float


@dataclass(frozen=True)
class Crowd:
    """Instances alike: so many of a type in a stage."""

    instance_type: str
    stage: str
    count: int


def combs(bees: Sequence[Bee], columns: int = 40) -> tuple[Comb, ...]:
    """The bees, which come sorted by group, in combs."""
    groups = [(name, list(members)) for name, members in groupby(bees, key=lambda bee: bee.group)]
    if len(groups) > GROUPS_NAMED:
        return (_comb("", bees, columns),)
    return tuple(_comb(name, members, min(_columns(len(members)), columns)) for name, members in groups)


def aggregated(crowds: Iterable[Crowd], cells: int = CELLS) -> tuple[list[Bee], int]:
    """Bees that each stand for up to `per_cell` instances alike, and that number."""
    crowds = sorted(crowds, key=lambda crowd: (crowd.instance_type, STAGES.index(crowd.stage)))
    # Each crowd may leave one cell partly filled.
    per_cell = max(1, ceil(sum(crowd.count for crowd in crowds) / max(cells - len(crowds), 1)))
    bees = []
    for crowd in crowds:
        for first in range(0, crowd.count, per_cell):
            count = min(per_cell, crowd.count - first)
            bees.append(Bee(crowd.instance_type, crowd.stage, f"{count} x {crowd.instance_type}, {crowd.stage}"))
    return bees, per_cell


def _columns(count: int) -> int:
    """A comb somewhat wider than high."""
    return max(ceil(sqrt(count * 1.6)), min(count, 4))


def _comb(name: str, bees: Sequence[Bee], columns: int) -> Comb:
    cells = tuple(_cell(place, columns, bee) for place, bee in enumerate(bees))
    rows = ceil(len(bees) / columns)
    width = (min(columns, len(bees)) + (0.5 if rows > 1 else 0)) * ACROSS
    height = (rows - 1) * DOWN + 2 * RADIUS
    owners = {(bee.account_id, bee.endpoint) for bee in bees}
    account_id, endpoint = owners.pop() if len(owners) == 1 else ("", "")
    return Comb(name, account_id, endpoint, cells, round(width + 1, 1), round(height + 1, 1))


def _cell(place: int, columns: int, bee: Bee) -> Cell:
    row, column = divmod(place, columns)
    x = (column + 0.5 + (0.5 if row % 2 else 0.0)) * ACROSS
    return Cell(round(x, 1), round(row * DOWN + RADIUS, 1), bee)
