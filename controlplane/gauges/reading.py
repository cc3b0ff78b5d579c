"""What was found when somebody looked. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

SERIES = 100
"""Of single endpoints so many are told of each kind: the worst. More would be a list, which the API gives."""


@dataclass(frozen=True)
class ShortVariant:
    """A variant with fewer ready instances than wanted."""

    account_id: str
    endpoint: str
    variant: str
    wanted: int
    ready: int


@dataclass(frozen=True)
class FailingVariant:
    """A variant of whose calls some failed in the last minute: no answer of the model, or one of its 5xx."""

    account_id: str
    endpoint: str
    variant: str
    calls: int
    failed: int


@dataclass(frozen=True)
class Backlog:
    """What waits or runs at an asynchronous endpoint, and the age of the oldest of it in seconds."""

    account_id: str
    endpoint: str
    size: int
    oldest_seconds: float


@dataclass(frozen=True)
class Fleet:
    """Endpoints by status, instances by stage, and the variants that are short.

    `hourly_price` is in US dollars, of all live instances whose price is known. `closed` maps an instance type to the
    offerings of it (zone and market) that are closed by a remembered refusal.
    """

    endpoints: Mapping[str, int]
    instances: Mapping[str, int]
    hourly_price: float
    short: tuple[ShortVariant, ...]
    short_count: int
    closed: Mapping[str, int]


@dataclass(frozen=True)
class Traffic:
    """Calls of the last minute, and what waits; the totals are of all endpoints."""

    calls: int
    failed: int
    failing: tuple[FailingVariant, ...]
    waiting: int
    oldest_seconds: float
    backlogs: tuple[Backlog, ...]


@dataclass(frozen=True)
class Leaks:
    """What costs and serves nobody: overdue ends, and orphans by state with their price in US dollars an hour."""

    overdue_ends: int
    orphans: Mapping[str, int]
    orphans_hourly_price: float
    is_sweep_held: bool


@dataclass(frozen=True)
class Machinery:
    """Processes alive by role, and how far behind they are, in seconds.

    `table_age_seconds` is that of the oldest routing table among the live gateways, None without one;
    `overdue_look_seconds` is for how long the endpoint that waits longest has been due.
    """

    live: Mapping[str, int]
    table_age_seconds: float | None
    overdue_look_seconds: float


@dataclass(frozen=True)
class Reading:
    """One look at everything."""

    fleet: Fleet
    traffic: Traffic
    leaks: Leaks
    machinery: Machinery
