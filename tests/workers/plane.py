"""Driving a control plane by hand: operations as a client would call them, rounds as the scheduler would run them."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Min
from django.db.models.functions import Greatest

from controlplane.config.operations import MODULES
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage
from controlplane.observability.models import Event
from controlplane.wire.registry import Context, handler_of
from tests.fakes.clock import FakeClock
from workers.loop.lease import due_endpoints
from workers.loop.run import reconcile
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

assert MODULES, "importing them registered the operations"

IMAGE = "headrace/reference"
FIRST, SECOND, THIRD = "ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.large"


class Plane:
    """One control plane with a simulated world below it."""

    def __init__(self, provider: SimulatedProvider, clock: FakeClock) -> None:
        self.world: World = provider.world
        self.clock = clock

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        """Call an operation as the wire would."""
        account = settings.HEADRACE.account_id
        context = Context(account, "key", settings.HEADRACE.region, "request", self.clock.now())
        return handler_of(operation)(context, params)

    def configure(
        self, name: str, *, count: int = 1, types: tuple[str, ...] = (FIRST, SECOND), image: str = IMAGE, **variant: Any
    ) -> None:
        """Create a model and a configuration over pools of these types, in order of priority.

        `asynchronous`, True or the members of an OutputConfig, makes it one for asynchronous calls.
        """
        asynchronous = variant.pop("asynchronous", False)
        self.call("CreateModel", ModelName=name, PrimaryContainer={"Image": image})
        pools = [{"InstanceType": each, "Priority": place} for place, each in enumerate(types, start=1)]
        shape = {"VariantName": "v", "ModelName": name, "InitialInstanceCount": count, "InstancePools": pools, **variant}
        output = {"S3OutputPath": "s3://bucket/out", **(asynchronous if isinstance(asynchronous, dict) else {})}
        extra = {"AsyncInferenceConfig": {"OutputConfig": output}} if asynchronous else {}
        self.call("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[shape], **extra)

    def create(self, name: str = "e", *, tags: dict[str, str] | None = None, **config: Any) -> None:
        """Create an endpoint with a configuration of its own (see `configure`)."""
        self.configure(name, **config)
        pairs = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        self.call("CreateEndpoint", EndpointName=name, EndpointConfigName=name, Tags=pairs)

    def update(self, name: str = "e", config: str = "next", policy: dict[str, Any] | None = None, **params: Any) -> None:
        """Want another configuration, with the DeploymentConfig given."""
        extra = {"DeploymentConfig": policy} if policy else {}
        self.call("UpdateEndpoint", EndpointName=name, EndpointConfigName=config, **extra, **params)

    def until(self, is_so: Callable[[], bool], seconds: float = 600.0, step: float = 5.0) -> None:
        """Work on whatever is due until something is so; fails when it is not within these seconds of the fake clock.

        Time moves from one look to the next, by `step` at most.
        """
        end = self.clock.monotonic() + seconds
        while not is_so():
            assert self.clock.monotonic() < end, f"not so after {seconds} s: {self.story()}"
            for endpoint_id, _due in due_endpoints(self.clock.now(), 100):
                reconcile(endpoint_id)
            due = Endpoint.objects.aggregate(due=Min("look_again_at"))["due"] or self.clock.now()
            self.clock.step(min(max((due - self.clock.now()).total_seconds(), 0.05), step))

    def scale(self, name: str, count: int) -> None:
        """Want another number of instances."""
        changes = [{"VariantName": "v", "DesiredInstanceCount": count}]
        self.call("UpdateEndpointWeightsAndCapacities", EndpointName=name, DesiredWeightsAndCapacities=changes)

    def settle(self, seconds: float = 5.0, step: float = 0.25) -> None:
        """Let time pass and work on whatever is due, as the scan does; no message is involved."""
        due: datetime | None = self.clock.now()
        for _ in range(int(seconds / step) + 1):
            if due and due <= self.clock.now():
                for endpoint_id, _due in due_endpoints(self.clock.now(), 100):
                    reconcile(endpoint_id)
                due = self._next_due()
            self.clock.step(step)

    @staticmethod
    def _next_due() -> datetime | None:
        """When there is something to do again; until then a scan would find nothing, so none need be made."""
        times = Endpoint.objects.annotate(at=Greatest("look_again_at", "claim_expires_at")).order_by("at")
        return times.values_list("at", flat=True).first()

    def status(self, name: str = "e") -> str:
        """The endpoint's status word."""
        return str(self.describe(name)["EndpointStatus"])

    def describe(self, name: str = "e") -> dict[str, Any]:
        """The endpoint as a client sees it."""
        return self.call("DescribeEndpoint", EndpointName=name)

    def exists(self, name: str = "e") -> bool:
        """Whether the endpoint's row is still there."""
        return Endpoint.objects.filter(name=name).exists()

    def counts(self, name: str = "e") -> dict[str, int]:
        """Serving instances by type, as a client sees them."""
        pools = self.describe(name)["ProductionVariants"][0]["InstancePools"]
        return {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in pools}

    def live(self) -> dict[str, int]:
        """The provider's instances by type, whatever they are doing."""
        return dict(Counter(row.instance_type for row in self.world.live()))

    def asked(self) -> list[str]:
        """The types that launches asked for, in order, with what they were told."""
        return [f"{call.instance_type} {call.result}" for call in self.world.calls()]

    def story(self, name: str = "e") -> list[str]:
        """The reasons of the endpoint's events, in order."""
        return list(Event.objects.filter(subject_name=name).order_by("id").values_list("reason", flat=True))

    def rows(self) -> int:
        """Instances that the database holds for live."""
        return Instance.objects.exclude(stage=InstanceStage.TERMINATED).count()
