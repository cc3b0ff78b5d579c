"""What the planner sees: one endpoint, frozen, with everything a decision may depend on.

Times are timezone-aware; durations are in seconds. Built by `observe` from the database and the provider, by tests by
hand.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Phase(StrEnum):
    """The endpoint's phase, as in `controlplane.endpoints.states` (restated so that planners need no Django)."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    ROLLING_BACK = "RollingBack"
    FAILED = "Failed"
    DELETING = "Deleting"


class Stage(StrEnum):
    """The instance's stage, as in `controlplane.fleet.states`."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"


class Sighting(StrEnum):
    """What the provider said of an instance this time."""

    UNKNOWN = "unknown"
    """It was not asked, or did not answer."""
    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"
    STOPPING = "stopping"
    GONE = "gone"


@dataclass(frozen=True)
class Mark:
    """A remembered refusal of one offering; see `controlplane.fleet.models.CapacityMark`."""

    kind: str
    message: str
    marked_at: datetime
    until: datetime
    seen_by: str
    probe_expires_at: datetime | None = None


@dataclass(frozen=True)
class Pool:
    """An instance pool of a variant; lower priority numbers are more wanted, equal ones in list order."""

    id: int
    priority: int
    position: int
    instance_type: str


@dataclass(frozen=True)
class Offering:
    """A pool in one zone: the unit that a launch asks for and a mark closes."""

    pool: Pool
    zone: str
    mark: Mark | None = None


@dataclass(frozen=True)
class Instance:
    """An instance with this round's observations.

    `is_healthy` is the answer to /ping, None when it was not asked. `in_flight` is the number of calls under way, None
    when some live gateway has not yet said so (for a draining instance: not yet acknowledged).
    """

    id: str
    pool: Pool
    stage: Stage
    stage_since: datetime
    launched_at: datetime
    sighting: Sighting = Sighting.UNKNOWN
    address: str = ""
    detail: str = ""
    failure: str = ""
    is_healthy: bool | None = None
    failed_pings: int = 0
    in_flight: int | None = 0
    was_ready: bool = False
    terminate_asked_at: datetime | None = None


@dataclass(frozen=True)
class Attempt:
    """A launch attempt whose outcome is not known yet."""

    token: str
    pool: Pool
    zone: str
    called_at: datetime


@dataclass(frozen=True)
class Variant:
    """A production variant: what is wanted, what there is, and the clocks of its running operation."""

    id: int
    name: str
    desired_count: int
    offerings: tuple[Offering, ...]
    instances: tuple[Instance, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    provision_deadline: datetime | None = None
    launch_not_before: datetime | None = None
    refusals: int = 0
    start_failures: int = 0
    start_failure_reason: str = ""
    startup_timeout_seconds: float = 480.0
    download_timeout_seconds: float = 1200.0
    desired_weight: float = 1.0
    current_weight: float = 1.0


@dataclass(frozen=True)
class Endpoint:
    """One endpoint; `consistency_window_seconds` is how long its provider's listings may lag behind a launch."""

    id: str
    name: str
    phase: Phase
    variants: tuple[Variant, ...] = field(default=())
    consistency_window_seconds: float = 0.0
