"""What can be had where: types by zones, with what is free, what runs, and what is remembered of refusals. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Mark:
    """A remembered refusal. `until` it is skipped; after that it is open to one launch that probes it."""

    id: int
    instance_type: str
    zone: str
    market: str
    kind: str
    message: str
    marked_at: datetime
    until: datetime
    streak: int
    seen_by: str
    probe_expires_at: datetime | None = None

    def state(self, now: datetime) -> str:
        """What it means now: `closed`, `probed` (a launch tries it) or `open` (the next launch probes it)."""
        if self.probe_expires_at is not None and self.probe_expires_at > now:
            return "probed"
        return "closed" if self.until > now else "open"


@dataclass(frozen=True)
class Quota:
    """How many instances of a type an account may want at once; no account: each that has no limit of its own."""

    account_id: str
    limit: int


@dataclass(frozen=True)
class Setting:
    """The capacity that an operator set for a rehearsal; `failure` says why the provider was not told."""

    slots: int
    set_by: str
    set_at: datetime
    applied_at: datetime | None
    failure: str


@dataclass(frozen=True)
class Known:
    """Everything the board is made of. `free` and `in_use` are by (type, zone); `otherwise` is free of types not listed.

    `wanted_by` says how many variants in service may run on a type, `prices` what an hour costs on demand (US dollars).
    """

    zones: tuple[str, ...]
    free: Mapping[tuple[str, str], int]
    otherwise: int | None
    in_use: Mapping[tuple[str, str], int]
    marks: tuple[Mark, ...]
    wanted_by: Mapping[str, int]
    prices: Mapping[str, float | None]
    quotas: Mapping[str, tuple[Quota, ...]] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """A type in a zone; `free` is None where the provider does not say. `state`: closed, probed, open, full or fine."""

    zone: str
    free: int | None
    in_use: int
    marks: tuple[tuple[Mark, str], ...]
    state: str


@dataclass(frozen=True)
class Row:
    """A type with its cells, in the order of the zones. `is_closed`: marked in every zone."""

    instance_type: str
    price: float | None
    wanted_by: int
    quotas: tuple[Quota, ...]
    setting: Setting | None
    cells: tuple[Cell, ...]
    is_closed: bool


@dataclass(frozen=True)
class Board:
    """Rows, the most wanted type first, under the names of the zones."""

    zones: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def marks(self) -> list[tuple[Mark, str]]:
        """All marks with their states, in the order of the board."""
        return [mark for row in self.rows for cell in row.cells for mark in cell.marks]


MANY = 100_000
"""A provider that says so many are free has no limit that anybody would notice."""


def board(known: Known, now: datetime) -> Board:
    """The board as it stands at `now`."""
    seen = {mark.zone for mark in known.marks} | {zone for _, zone in known.in_use}
    zones = (*known.zones, *sorted(seen - set(known.zones)))
    rows = [_row(name, zones, known, now) for name in _types(known)]
    rows.sort(key=lambda row: (-row.wanted_by, -sum(cell.in_use for cell in row.cells), row.instance_type))
    return Board(zones, tuple(rows))


def _types(known: Known) -> set[str]:
    """The types that anybody wants, has, was refused or was told about."""
    named: Iterable[str] = (
        *known.wanted_by,
        *(name for name, _ in known.in_use),
        *(name for name, _ in known.free),
        *(mark.instance_type for mark in known.marks),
        *known.settings,
    )
    return set(named)


def _row(name: str, zones: tuple[str, ...], known: Known, now: datetime) -> Row:
    cells = tuple(_cell(name, zone, known, now) for zone in zones)
    is_closed = bool(cells) and all(cell.state in ("closed", "probed") for cell in cells)
    quotas = known.quotas.get(name, ())
    return Row(
        name, known.prices.get(name), known.wanted_by.get(name, 0), quotas, known.settings.get(name), cells, is_closed
    )


def _cell(name: str, zone: str, known: Known, now: datetime) -> Cell:
    free = known.free.get((name, zone), known.otherwise) if zone in known.zones else None
    marks = tuple((mark, mark.state(now)) for mark in known.marks if (mark.instance_type, mark.zone) == (name, zone))
    states = {state for _, state in marks}
    worst = next((state for state in ("closed", "probed", "open") if state in states), "")
    state = worst or ("full" if free == 0 else "fine")
    return Cell(zone, free, known.in_use.get((name, zone), 0), marks, state)
