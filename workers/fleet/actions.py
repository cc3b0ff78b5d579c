"""What a plan may ask for. Every action carries the sentence that explains it to a human."""

from dataclasses import dataclass
from datetime import datetime

from workers.fleet.view import Attempt, Instance, Offering, Variant


@dataclass(frozen=True)
class StartFailure:
    """An instance never came up: `reason` in the words of a FailureReason; `is_final` when trying again is no use."""

    reason: str
    is_final: bool = False


@dataclass(frozen=True)
class Launch:
    """Start `count` instances on this offering, one by one, until one is refused."""

    variant: Variant
    offering: Offering
    count: int
    is_probe: bool
    why: str


@dataclass(frozen=True)
class ResolveAttempt:
    """Find out what became of a launch whose outcome was lost; repeat it by token only if `is_wanted`."""

    variant: Variant
    attempt: Attempt
    is_wanted: bool
    why: str


@dataclass(frozen=True)
class MarkStarting:
    """The provider gave the instance an address; from now on its /ping is asked."""

    instance: Instance
    why: str


@dataclass(frozen=True)
class MarkReady:
    """The instance answered /ping: route to it."""

    variant: Variant
    instance: Instance
    why: str


@dataclass(frozen=True)
class NotePing:
    """Store the number of /ping failures in a row (0 = healthy again)."""

    instance: Instance
    failed_pings: int
    why: str


@dataclass(frozen=True)
class Drain:
    """Send the instance no new calls and let those under way end."""

    variant: Variant
    instance: Instance
    why: str


@dataclass(frozen=True)
class Terminate:
    """Ask the provider for the instance's end; a `start_failure` counts against the variant."""

    variant: Variant
    instance: Instance
    why: str
    start_failure: StartFailure | None = None


@dataclass(frozen=True)
class ForgetInstance:
    """The provider no longer knows the instance: close its row."""

    variant: Variant
    instance: Instance
    why: str
    start_failure: StartFailure | None = None


@dataclass(frozen=True)
class EnterService:
    """Everything wanted is there: the endpoint is (again) InService."""

    why: str


@dataclass(frozen=True)
class GiveUp:
    """The running operation failed: Creating ends in Failed, Updating in RollingBack. `why` is the FailureReason."""

    variant: Variant
    why: str


@dataclass(frozen=True)
class RemoveEndpoint:
    """Nothing is left of a deleted endpoint: delete its rows."""

    why: str


Action = (
    Launch
    | ResolveAttempt
    | MarkStarting
    | MarkReady
    | NotePing
    | Drain
    | Terminate
    | ForgetInstance
    | EnterService
    | GiveUp
    | RemoveEndpoint
)


@dataclass(frozen=True)
class Plan:
    """What to do now, when to look again at the latest, and one sentence on where things stand."""

    actions: tuple[Action, ...]
    look_again_at: datetime
    why: str
