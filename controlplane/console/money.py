"""What pools cost today and what they cost an hour as they run now. Pure; see `fleet.spend` for what counts."""

from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.fleet.spend import Spend


@dataclass(frozen=True)
class Group:
    """Instances of one type, market and price (US dollars an hour, None: unknown): their hours today, how many run."""

    instance_type: str
    market: str
    hourly_price: float | None
    hours: float
    running: int


@dataclass(frozen=True)
class Line:
    """What one type in one market cost today and costs now."""

    instance_type: str
    market: str
    spend: Spend


@dataclass(frozen=True)
class Bill:
    """All lines, the dearest today first, and their sum."""

    lines: tuple[Line, ...]
    total: Spend


def bill(groups: Iterable[Group]) -> Bill:
    """The groups by type and market."""
    found: dict[tuple[str, str], Spend] = {}
    for group in groups:
        key = (group.instance_type, group.market)
        found[key] = found.get(key, Spend()) + _spend(group)
    lines = [Line(*key, spend) for key, spend in found.items()]
    lines.sort(key=lambda line: (-line.spend.dollars, -line.spend.hourly_dollars, line.instance_type, line.market))
    return Bill(tuple(lines), sum((line.spend for line in lines), Spend()))


def _spend(group: Group) -> Spend:
    if group.hourly_price is None:
        return Spend(group.hours, 0.0, group.hours, group.running, 0.0)
    return Spend(group.hours, group.hours * group.hourly_price, 0.0, group.running, group.running * group.hourly_price)
