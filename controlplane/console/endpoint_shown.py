"""The shapes of what the page of one endpoint shows; `console.endpoint_page` fills them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.console import endpoint_words as words
from controlplane.console.endpoint_backlog import Backlog
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant
from controlplane.fleet.explanations import Explanation, VariantStory
from controlplane.fleet.ladder import Step
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage


@dataclass(frozen=True)
class Pool:
    """An instance pool as deployed: how wanted it is, what it runs, what serves from it, and its price an hour."""

    priority: int
    instance_type: str
    model_name: str
    ready: int
    hourly_price: float | None


@dataclass(frozen=True)
class Rung:
    """A step of the ladder, with the mark that an operator may clear."""

    step: Step
    mark_id: int | None


@dataclass(frozen=True)
class InstanceLine:
    """A live instance with the calls that are under way there."""

    row: Instance
    short_id: str
    tone: str
    calls: int
    is_overdue: bool
    may_leave: bool


@dataclass(frozen=True)
class Variant:
    """A variant of one revision with all that belongs to it."""

    row: EndpointVariant
    story: VariantStory
    is_of_service: bool
    pools: tuple[Pool, ...]
    ladder: tuple[Rung, ...]
    instances: tuple[InstanceLine, ...]
    instances_left_out: int
    fleet: str

    @property
    def is_searching(self) -> bool:
        """Whether it lacks an instance: the ladder is then what matters."""
        return any(rung.step.next_try_at is not None for rung in self.ladder)


@dataclass(frozen=True)
class Rollout:
    """The deployment that is under way."""

    row: Deployment
    strategy: str
    stops: Sequence[words.Stop]
    share_percent: int
    is_going_back: bool


@dataclass(frozen=True)
class State:
    """All that moves while somebody looks."""

    endpoint: Endpoint
    explanation: Explanation
    label: str
    tone: str
    variants: tuple[Variant, ...]
    rollout: Rollout | None
    backlog: Backlog | None

    @property
    def is_moving(self) -> bool:
        """Whether something changes by itself, so that the page should look again soon."""
        lines = [line for variant in self.variants for line in variant.instances]
        return self.endpoint.phase in words.IN_PROGRESS or any(
            line.row.stage != InstanceStage.READY or line.row.leave for line in lines
        )

    @property
    def ready(self) -> int:
        """Instances that serve, of all revisions."""
        return sum(variant.row.current_count for variant in self.variants)

    @property
    def wanted(self) -> int:
        """Instances that are wanted, of all revisions."""
        return sum(variant.row.desired_count for variant in self.variants)

    @property
    def calls(self) -> int:
        """Calls under way at the instances shown."""
        return sum(line.calls for variant in self.variants for line in variant.instances)


@dataclass(frozen=True)
class Revision:
    """A configuration that the endpoint serves, served, or is moving to."""

    number: int
    config_name: str
    since: datetime
    standing: str
    fleet: str
