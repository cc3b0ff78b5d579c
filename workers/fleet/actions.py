"""What a plan may ask for. Every action carries the sentence that explains it to a human."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.core.offerings import Offering
from workers.fleet.view import Attempt, DeploymentStage, Instance, Variant


@dataclass(frozen=True)
class StartFailure:
    """An instance never came up: `reason` in the words of a FailureReason; `is_final` when trying again is no use."""

    reason: str
    is_final: bool = False


@dataclass(frozen=True)
class Launch:
    """Start `count` instances on this offering, one by one, until one is refused.

    `replaces` is the id of the instance whose place a coming-home move fills. `headroom` is as in `Search`.
    """

    variant: Variant
    offering: Offering
    count: int
    is_probe: bool
    why: str
    replaces: str = ""
    headroom: float | None = None


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
class NoteEnd:
    """The provider announced to take the instance away at `ends_at`: remember it, so that a replacement comes first."""

    instance: Instance
    ends_at: datetime
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
class NoteShort:
    """The variant lacks an instance from now on: the clock of its pools' patience starts."""

    variant: Variant
    why: str


@dataclass(frozen=True)
class EndMove:
    """A coming-home move is over (done or given up): none before the hold-down has passed."""

    variant: Variant
    why: str


@dataclass(frozen=True)
class RemoveVariant:
    """Nothing is left of a variant of an earlier revision: delete its rows."""

    variant: Variant
    why: str


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
class Advance:
    """Move the deployment on: its stage and step, wanted counts by variant id, and the share of calls of the new
    revision (None: as it is). `searches` are the variants whose search for capacity starts now."""

    stage: DeploymentStage
    step: int
    why: str
    counts: Mapping[int, int] = field(default_factory=dict)
    share: float | None = None
    searches: tuple[int, ...] = ()


@dataclass(frozen=True)
class RollBack:
    """The deployment failed: turn back, `share` of the calls going to the new revision from now on (None: as it is).

    `reason` is the FailureReason; `step` the one that had been reached.
    """

    reason: str
    step: int
    why: str
    share: float | None = None


@dataclass(frozen=True)
class FinishDeployment:
    """The new revision serves alone: it is the endpoint's from now on."""

    why: str


@dataclass(frozen=True)
class EndRollback:
    """The old revision serves alone again; what made the deployment fail stays as the FailureReason."""

    why: str


@dataclass(frozen=True)
class FailRollback:
    """The old revision could not be restored either: the mixed fleet goes on serving. `why` is the FailureReason."""

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
    | NoteEnd
    | Drain
    | Terminate
    | ForgetInstance
    | NoteShort
    | EndMove
    | RemoveVariant
    | EnterService
    | GiveUp
    | Advance
    | RollBack
    | FinishDeployment
    | EndRollback
    | FailRollback
    | RemoveEndpoint
)


@dataclass(frozen=True)
class Plan:
    """What to do now, when to look again at the latest, and one sentence on where things stand."""

    actions: tuple[Action, ...]
    look_again_at: datetime
    why: str
