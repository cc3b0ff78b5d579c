"""What instances have cost so far. Pure.

An instance costs from its launch to its end, boot and drain included: that is when a provider charges for it. Its price is
the one known at its launch. Where none was known its hours are counted and its dollars are not: a sum with such hours in
it is a lower bound, and says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True)
class Stay:
    """One instance's time: from launch to end (None: it still runs), at a price in US dollars an hour (None: unknown)."""

    variant: str
    instance_type: str
    market: str
    hourly_price: float | None
    launched_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Spend:
    """Instance hours, US dollars for those with a known price, and what runs now with its cost an hour."""

    hours: float = 0.0
    dollars: float = 0.0
    unpriced_hours: float = 0.0
    running: int = 0
    hourly_dollars: float = 0.0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(
            self.hours + other.hours,
            self.dollars + other.dollars,
            self.unpriced_hours + other.unpriced_hours,
            self.running + other.running,
            self.hourly_dollars + other.hourly_dollars,
        )

    def __str__(self) -> str:
        lacking = f", of which {self.unpriced_hours:.2f} h have no known price" if self.unpriced_hours else ""
        now = f"; {self.running} running, {self.hourly_dollars:.2f} USD/h" if self.running else ""
        return f"{self.dollars:.2f} USD for {self.hours:.2f} instance hours{lacking}{now}"


@dataclass(frozen=True)
class PoolSpend:
    """What one pool of one variant has cost, by market."""

    variant: str
    instance_type: str
    market: str
    spend: Spend


def by_pool(stays: Iterable[Stay], now: datetime) -> tuple[PoolSpend, ...]:
    """The spend of each variant, type and market, in the order in which they come up."""
    found: dict[tuple[str, str, str], PoolSpend] = {}
    for stay in stays:
        key = (stay.variant, stay.instance_type, stay.market)
        line = found.setdefault(key, PoolSpend(*key, Spend()))
        found[key] = replace(line, spend=line.spend + spend_of(stay, now))
    return tuple(found.values())


def total(lines: Iterable[PoolSpend]) -> Spend:
    """The sum of some lines."""
    return sum((line.spend for line in lines), Spend())


def spend_of(stay: Stay, now: datetime) -> Spend:
    """What one instance has cost by `now`."""
    end = now if stay.ended_at is None else min(stay.ended_at, now)
    hours = max((end - stay.launched_at).total_seconds(), 0.0) / 3600
    running = int(stay.ended_at is None)
    if stay.hourly_price is None:
        return Spend(hours, 0.0, hours, running, 0.0)
    return Spend(hours, hours * stay.hourly_price, 0.0, running, running * stay.hourly_price)
