"""What a scenario may say, frozen. Times are seconds from the scenario's start, prices US dollars per hour."""

from dataclasses import dataclass

from controlplane.core.offerings import ON_DEMAND

HOUR = 3600.0
DAY = 24 * HOUR

UNLIMITED = 1_000_000
"""The slots of a type that a scenario sets no limit for."""

TOTAL = "total"
"""What all groups together are called; no group may be."""

THROTTLED = "throttled"
AMBIGUOUS = "ambiguous"
OUTAGE_KINDS = (THROTTLED, AMBIGUOUS)


@dataclass(frozen=True)
class Shortage:
    """From `start` to `end` at most `slots` instances per zone; `zones` empty = in all, `market` empty = in both."""

    start: float
    end: float
    slots: int = 0
    zones: tuple[str, ...] = ()
    market: str = ""


@dataclass(frozen=True)
class Flapping:
    """Plenty and none by turns, drawn for each zone: means of exponential times."""

    plenty: float
    shortage: float
    zones: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstanceType:
    """An instance type: what it costs, how long it boots (evenly spread by +- `boot_spread`), how many there are.

    `slots` and `spot_slots` hold per zone. `interruptions_per_day` is the rate at which one spot instance is taken away.
    """

    name: str
    price: float
    spot_price: float
    boot_seconds: float = 180.0
    boot_spread: float = 0.2
    slots: int = UNLIMITED
    spot_slots: int = UNLIMITED
    interruptions_per_day: float = 0.0
    shortages: tuple[Shortage, ...] = ()
    flapping: Flapping | None = None


@dataclass(frozen=True)
class Outage:
    """The provider's launch calls fail: throttled, or without an answer; `happened` of those did happen (0 to 1)."""

    start: float
    end: float
    kind: str = THROTTLED
    happened: float = 0.5


@dataclass(frozen=True)
class PoolWish:
    """An instance pool as in an endpoint configuration."""

    instance_type: str
    priority: int
    patience_seconds: float = 0.0


@dataclass(frozen=True)
class Demand:
    """How many instances are wanted: `low` at night, `high` at `peak_hour`, a cosine between; `noise` is the standard
    deviation of each step as a share of the range. Constant where `low` = `high`."""

    low: int
    high: int
    peak_hour: float = 14.0
    noise: float = 0.0
    step_seconds: float = 1800.0


@dataclass(frozen=True)
class Group:
    """`count` endpoints alike, created evenly over `created_over` seconds from the start."""

    name: str
    count: int
    pools: tuple[PoolWish, ...]
    demand: Demand
    markets: tuple[str, ...] = (ON_DEMAND,)
    provision_seconds: float = 1800.0
    home_after_seconds: float | None = None
    hourly_ceiling: float | None = None
    startup_seconds: float = 60.0
    startup_spread: float = 0.2
    startup_timeout_seconds: float = 480.0
    drain_seconds: float = 30.0
    crashes_per_day: float = 0.0
    failed_starts: float = 0.0
    created_over: float = 0.0

    @property
    def preferred(self) -> str:
        """The type of its most wanted pool: the smallest priority, then list order."""
        return min(self.pools, key=lambda pool: pool.priority).instance_type


@dataclass(frozen=True)
class Scenario:
    """A whole scenario. `call_seconds` is how long a launch call takes. The last three stand for the settings
    HEADRACE_CAPACITY_MARK_SECONDS, HEADRACE_COMING_HOME_BUDGET and HEADRACE_COMING_HOME_HOLD_DOWN_SECONDS."""

    title: str
    days: float
    seed: int
    zones: tuple[str, ...]
    types: tuple[InstanceType, ...]
    groups: tuple[Group, ...]
    outages: tuple[Outage, ...] = ()
    call_seconds: float = 1.5
    mark_seconds: float = 300.0
    coming_home_budget: int = 2
    hold_down_seconds: float = 1800.0

    @property
    def duration(self) -> float:
        """In seconds."""
        return self.days * DAY
