"""What clients ask for during a storm: endpoints over pool lists of every length, other counts, the end of it all."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from controlplane.core.errors import ValidationException
from controlplane.endpoints.models import Endpoint
from tests.crash.rig import Rig

POLICIES: tuple[dict[str, Any] | None, ...] = (
    None,
    {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 10},
            "TerminationWaitInSeconds": 10,
            "MaximumExecutionTimeoutInSeconds": 900,
        }
    },
    {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {
                "Type": "CANARY",
                "WaitIntervalInSeconds": 10,
                "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1},
            }
        }
    },
    {
        "RollingUpdatePolicy": {
            "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            "WaitIntervalInSeconds": 10,
            "MaximumExecutionTimeoutInSeconds": 900,
        }
    },
)
"""How an update goes, in the API's words."""

ENDPOINTS_LIMIT = 8
COUNT_LIMIT = 4


class Operations:
    """Draws operations and counts those that were accepted; a refusal of a busy endpoint is as good an answer."""

    def __init__(self, dice: random.Random, rig: Rig, types: tuple[str, ...]) -> None:
        self._dice = dice
        self._rig = rig
        self._types = types
        self._made = 0
        self.counted: Counter[str] = Counter()

    def draw(self) -> None:
        """One operation."""
        names = list(Endpoint.objects.order_by("created_at", "name").values_list("name", flat=True))
        if not names or (len(names) < ENDPOINTS_LIMIT and self._dice.random() < 0.4):
            self._try("create", self._create)
            return
        name = self._dice.choice(names)
        kinds = {"scale": self._scale, "update": self._update, "delete": self._delete}
        kind, operation = self._dice.choice([*kinds.items(), ("scale", self._scale)])
        self._try(kind, lambda: operation(name))

    def _try(self, kind: str, operation: Callable[[], Any]) -> None:
        try:
            operation()
            self.counted[kind] += 1
        except ValidationException:
            self.counted[f"refused {kind}"] += 1

    def _create(self) -> None:
        name = self._configure()
        self._rig.call("CreateEndpoint", EndpointName=name, EndpointConfigName=name)

    def _configure(self) -> str:
        """A configuration over pools drawn by the dice."""
        self._made += 1
        name = f"e{self._made}"
        self._rig.configure(
            name,
            count=self._dice.randint(1, COUNT_LIMIT),
            types=tuple(self._dice.sample(self._types, self._dice.randint(1, len(self._types)))),
            VariantInstanceProvisionTimeoutInSeconds=self._dice.choice([300, 300, 600]),
            ContainerStartupHealthCheckTimeoutInSeconds=self._dice.choice([60, 120]),
        )
        return name

    def _update(self, name: str) -> None:
        self._rig.update(name, self._configure(), self._dice.choice(POLICIES))

    def _scale(self, name: str) -> None:
        self._rig.scale(name, self._dice.randint(0, COUNT_LIMIT))

    def _delete(self, name: str) -> None:
        self._rig.call("DeleteEndpoint", EndpointName=name)
