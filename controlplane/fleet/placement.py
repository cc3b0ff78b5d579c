"""What a preview is made from and what it says. Pure; the walk from one to the other is `walk`'s.

Times are timezone-aware, durations in seconds, prices in US dollars an hour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.core.offerings import Offering, Rung

HOURS_PER_DAY = 24


@dataclass(frozen=True)
class Supply:
    """What the provider said of its free slots: by (zone, instance type), and for types it was not asked about.

    None for those: it does not say. `seen_at` is when it said so.
    """

    free: Mapping[tuple[str, str], int] = field(default_factory=dict)
    otherwise: int | None = None
    seen_at: datetime | None = None

    def of(self, offering: Offering) -> int | None:
        """The free slots of an offering, None where nobody knows."""
        return self.free.get((offering.zone, offering.pool.instance_type), self.otherwise)


@dataclass(frozen=True)
class Boots:
    """How long instances of a type took from launch to ready, in seconds: half of them, nine in ten, out of `count`."""

    p50_seconds: float
    p90_seconds: float
    count: int


@dataclass(frozen=True)
class Wanted:
    """A variant to place: its offerings in the planner's order, and the budget of its search for capacity."""

    name: str
    count: int
    offerings: tuple[Offering, ...]
    budget_seconds: float


@dataclass(frozen=True)
class Circumstances:
    """What else decides. `room` is what quotas leave by type (and under `*` in all), `ceiling` US dollars an hour.

    `mark_seconds` is how long a first refusal closes an offering.
    """

    supply: Supply = Supply()
    room: Mapping[str, int] = field(default_factory=dict)
    ceiling: float | None = None
    mark_seconds: float = 300.0
    boots: Mapping[str, Boots] = field(default_factory=dict)


@dataclass(frozen=True)
class Landing:
    """So many instances on one offering, asked for `after_seconds` from now. `is_certain` when free slots are known."""

    offering: Offering
    count: int
    after_seconds: float
    is_certain: bool
    boots: Boots | None
    why: str

    @property
    def hourly_cost(self) -> float | None:
        """US dollars an hour of all of them, None where the price is not known."""
        return None if self.offering.hourly_price is None else self.offering.hourly_price * self.count


@dataclass(frozen=True)
class VariantPreview:
    """Where a variant's instances would land, what is missing in the end, the ladder as it stands now, and the story."""

    name: str
    wanted: int
    landings: tuple[Landing, ...]
    ladder: tuple[Rung, ...]
    story: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Instances that would find no place within the budget."""
        return self.wanted - sum(landing.count for landing in self.landings)


@dataclass(frozen=True)
class Preview:
    """The whole endpoint. `refusal` is the error that CreateEndpoint would answer, empty when it would not; `seen_at` is
    when the provider last said what is free, None where it never does."""

    variants: tuple[VariantPreview, ...]
    refusal: str = ""
    seen_at: datetime | None = None

    @property
    def landings(self) -> tuple[Landing, ...]:
        """Those of all variants."""
        return tuple(landing for variant in self.variants for landing in variant.landings)

    @property
    def would_serve(self) -> bool:
        """Whether every instance would find a place."""
        return not self.refusal and not any(variant.missing for variant in self.variants)

    @property
    def hourly_cost(self) -> float | None:
        """US dollars an hour, None where a price is not known."""
        costs = [landing.hourly_cost for landing in self.landings]
        return sum(cost for cost in costs if cost is not None) if None not in costs else None

    @property
    def daily_cost(self) -> float | None:
        """US dollars a day."""
        return None if self.hourly_cost is None else self.hourly_cost * HOURS_PER_DAY

    @property
    def ready_p50_seconds(self) -> float | None:
        """When the last instance would be ready if each took as long as half of its type did; None: no idea."""
        return self._ready_seconds([each.boots.p50_seconds for each in self.landings if each.boots])

    @property
    def ready_p90_seconds(self) -> float | None:
        """As `ready_p50_seconds`, by what nine in ten took."""
        return self._ready_seconds([each.boots.p90_seconds for each in self.landings if each.boots])

    def _ready_seconds(self, boots: Sequence[float]) -> float | None:
        if not boots or len(boots) < len(self.landings):
            return None
        return max(landing.after_seconds + seconds for landing, seconds in zip(self.landings, boots, strict=True))
