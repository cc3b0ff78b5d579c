"""What the front page is told about the installation. Pure: `trouble_selectors` fills it in, `problems` judges it.

Lists are bounded (`trouble_selectors` says by how much); where that may leave something out, a count tells of the rest.
"""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class EndpointFact:
    """An endpoint that may be in trouble; `since` is when it entered its phase, `is_refused` whether every type it may run
    on was out of reach when it last asked.
    """

    account_id: str
    name: str
    phase: str
    why: str
    failure_reason: str
    since: datetime
    is_refused: bool = False


@dataclass(frozen=True)
class Shortage:
    """A variant in service with fewer instances than wanted; `is_closed`: every type it may run on is marked.

    `since` is known where the variant has patience, which counts from it.
    """

    account_id: str
    endpoint: str
    variant: str
    current: int
    desired: int
    why: str
    since: datetime | None
    is_closed: bool


@dataclass(frozen=True)
class Closed:
    """How many variants have all they want on types that are all marked, with an example of them."""

    variants: int
    account_id: str
    endpoint: str
    types: tuple[str, ...]


@dataclass(frozen=True)
class Overdue:
    """Instances whose end was asked for too long ago: how many, the oldest, and what they cost an hour (US dollars)."""

    count: int
    oldest_id: str
    oldest_type: str
    since: datetime
    hourly_dollars: float


@dataclass(frozen=True)
class Orphans:
    """Open orphans, what they cost an hour, since when the oldest is known, and why the sweep is held back, if it is."""

    count: int
    hourly_dollars: float
    unpriced: int
    overdue: int
    since: datetime | None
    held_since: datetime | None = None
    held_why: str = ""


@dataclass(frozen=True)
class Backlog:
    """What waits at an asynchronous endpoint, as last measured: how many, and the age of the oldest in seconds."""

    account_id: str
    endpoint: str
    size: int
    oldest_seconds: float
    lacks_instances: bool


@dataclass(frozen=True)
class Backlogs:
    """Endpoints where something waits, the longest wait first, how many requests wait at all of them, and when that was
    measured.
    """

    lines: tuple[Backlog, ...] = ()
    measured_at: datetime | None = None
    total: int = 0


@dataclass(frozen=True)
class Letters:
    """Requests of an endpoint that failed lately, by class of failure; `is_floor`: there are more than were counted."""

    account_id: str
    endpoint: str
    kind: str
    count: int
    is_floor: bool = False


@dataclass(frozen=True)
class Process:
    """A process, its role and when it was last heard of; for gateways also the age of the routing table they serve from."""

    role: str
    id: str
    seen_at: datetime
    table_age_seconds: float = 0.0


@dataclass(frozen=True)
class Alarm:
    """An alarm in the state ALARM."""

    account_id: str
    name: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class Facts:
    """Everything that `problems` looks at. `more_endpoints`: endpoints in trouble beyond those listed."""

    endpoints: tuple[EndpointFact, ...] = ()
    more_endpoints: int = 0
    shortages: tuple[Shortage, ...] = ()
    closed: Closed | None = None
    overdue: Overdue | None = None
    orphans: Orphans | None = None
    backlogs: Backlogs = field(default_factory=Backlogs)
    letters: tuple[Letters, ...] = ()
    processes: tuple[Process, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    more_alarms: int = 0
    behind: int = 0
    behind_since: datetime | None = None
