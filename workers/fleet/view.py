"""What the planner sees: one endpoint, frozen, with everything a decision may depend on.

Times are timezone-aware; durations are in seconds. Built by `observe` from the database and the provider, by tests by
hand.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.core.offerings import Offering, Pool


class Phase(StrEnum):
    """The endpoint's phase, as in `controlplane.endpoints.states` (restated so that planners need no Django)."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    ROLLING_BACK = "RollingBack"
    UPDATE_ROLLBACK_FAILED = "UpdateRollbackFailed"
    FAILED = "Failed"
    DELETING = "Deleting"


IN_OPERATION = frozenset({Phase.CREATING, Phase.UPDATING})
"""Phases of an operation that gives up once its time is over."""


class Stage(StrEnum):
    """The instance's stage, as in `controlplane.fleet.states`."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"


WANTED = frozenset({Stage.PENDING, Stage.STARTING, Stage.READY})
"""Stages of an instance that serves or is about to; any other is on its way out."""


class Sighting(StrEnum):
    """What the provider said of an instance this time."""

    UNKNOWN = "unknown"
    """It was not asked, or did not answer."""
    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"
    STOPPING = "stopping"
    GONE = "gone"


class Leave(StrEnum):
    """How an operator wants the instance gone, as in `controlplane.fleet.states`."""

    NOT_ASKED = ""
    DRAIN = "drain"
    REPLACE = "replace"


@dataclass(frozen=True)
class Instance:
    """An instance with this round's observations.

    `is_healthy` is the answer to /ping, None when it was not asked. `in_flight` is the number of calls under way, None
    when some live gateway has not yet said so (for a draining instance: not yet acknowledged). `replaces` is the id of
    the instance whose place this one is to take (a coming-home move). `ends_at` is when it will be taken away, as noted
    from the provider's announcement (`notice`, `notice_ends_at`). `hourly_price` is in US dollars. `leave` is how an
    operator (`leave_asked_by`) wants it gone.
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
    replaces: str = ""
    ends_at: datetime | None = None
    notice: str = ""
    notice_ends_at: datetime | None = None
    hourly_price: float = 0.0
    leave: Leave = Leave.NOT_ASKED
    leave_asked_by: str = ""


@dataclass(frozen=True)
class Attempt:
    """A launch attempt whose outcome is not known yet."""

    token: str
    pool: Pool
    zone: str
    called_at: datetime
    replaces: str = ""
    hourly_price: float = 0.0


@dataclass(frozen=True)
class Variant:
    """A production variant of one revision: what is wanted, what there is, and the clocks of its running operation.

    `short_lives` are the ends of instances that served only briefly; see `pace`.
    `full_count` is the count with which it serves alone, while a deployment moves `desired_count`. `short_since` is
    since when it lacks an instance. `home_after_seconds` is how long the preferred type must have been open before a
    fallback is replaced (None: never), `move_not_before` the hold-down after such a move; while `is_home_paused` none
    starts.
    """

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
    revision: int = 1
    full_count: int = 0
    short_since: datetime | None = None
    home_after_seconds: float | None = None
    move_not_before: datetime | None = None
    is_home_paused: bool = False
    short_lives: tuple[datetime, ...] = ()


class Rollout(StrEnum):
    """How a deployment moves from the old revision to the new one."""

    ALL_AT_ONCE = "ALL_AT_ONCE"
    CANARY = "CANARY"
    LINEAR = "LINEAR"
    ROLLING = "ROLLING"
    SURGELESS = "SURGELESS"
    """Rolling for fleets without a spare instance: each batch of the old goes before its place is filled anew."""


class SizeUnit(StrEnum):
    """What a batch or a slice is counted in."""

    INSTANCE_COUNT = "INSTANCE_COUNT"
    CAPACITY_PERCENT = "CAPACITY_PERCENT"


@dataclass(frozen=True)
class Size:
    """A batch or a slice of a fleet."""

    unit: SizeUnit
    value: int


WHOLE = Size(SizeUnit.CAPACITY_PERCENT, 100)


@dataclass(frozen=True)
class Strategy:
    """How a deployment goes: its kind, the size of a step, of a step back, and the waits in seconds."""

    rollout: Rollout = Rollout.ALL_AT_ONCE
    size: Size = WHOLE
    rollback_size: Size = WHOLE
    bake_seconds: float = 0.0
    termination_wait_seconds: float = 0.0


class DeploymentStage(StrEnum):
    """Where a deployment is, as in `controlplane.endpoints.states`."""

    PENDING = "pending"
    RETIRING = "retiring"
    PROVISIONING = "provisioning"
    ACTIVATING = "activating"
    BAKING = "baking"
    WAITING = "waiting"
    CLEANING = "cleaning"
    ROLLING_BACK = "rolling back"


@dataclass(frozen=True)
class Deployment:
    """A running deployment of the variants of `to_revision`; every other revision's variants are the old fleet.

    `step` counts from 1 within the strategy's steps, and within the steps back while rolling back (`rolled_back_from`
    is then the step it had reached). `share` of the calls goes to the new revision. `alarms` are the names of its alarms
    that are in ALARM now.
    """

    to_revision: int
    stage: DeploymentStage
    stage_since: datetime
    step: int = 1
    rolled_back_from: int = 0
    share: float = 0.0
    strategy: Strategy = Strategy()
    deadline: datetime | None = None
    alarms: tuple[str, ...] = ()
    failure_reason: str = ""


@dataclass(frozen=True)
class Topics:
    """The trial of the endpoint's topics that its last change began: messages under way, and why one was not taken."""

    waiting: int = 0
    refusal: str = ""


@dataclass(frozen=True)
class Endpoint:
    """One endpoint; `consistency_window_seconds` is how long its provider's listings may lag behind a launch.

    `revision` is the revision in service. `hourly_ceiling` is what all its instances together may cost, US dollars.
    """

    id: str
    name: str
    phase: Phase
    variants: tuple[Variant, ...] = field(default=())
    consistency_window_seconds: float = 0.0
    revision: int = 1
    deployment: Deployment | None = None
    hourly_ceiling: float | None = None
    topics: Topics = Topics()
