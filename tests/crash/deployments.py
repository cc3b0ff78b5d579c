"""Scenarios in which a fleet changes over: other configurations by every strategy, their way back, and coming home."""

from typing import Any

from controlplane.endpoints.states import Phase
from tests.crash.rig import Rig
from tests.crash.scenarios import NAME, Scenario, Step, is_so, is_wished, served, short_of
from tests.workers.plane import FIRST, SECOND

OTHER_SECOND_SLOTS_IN_VAIN = 1
"""One instance of the new revision comes up and the second never does: there is something to undo."""


def _updatable(second: int = 9) -> Step:
    """Two instances of the first type serve; the configuration `next` wants two of the second."""

    def prepare(rig: Rig) -> None:
        served(9, second, count=2)(rig)
        rig.configure("next", count=2, types=(SECOND,), VariantInstanceProvisionTimeoutInSeconds=300)

    return prepare


def _update(policy: dict[str, Any] | None) -> Step:
    return lambda rig: rig.update(NAME, "next", policy)


def _blue_green(kind: str, **size: int) -> dict[str, Any]:
    sizes = {name: {"Type": "INSTANCE_COUNT", "Value": value} for name, value in size.items()}
    return {
        "BlueGreenUpdatePolicy": {
            "TrafficRoutingConfiguration": {"Type": kind, "WaitIntervalInSeconds": 5, **sizes},
            "TerminationWaitInSeconds": 5,
        }
    }


_ROLLING = {
    "RollingUpdatePolicy": {
        "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
        "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
        "WaitIntervalInSeconds": 5,
    }
}
_POLICIES: dict[str, tuple[dict[str, Any] | None, int]] = {
    "all-at-once": (_blue_green("ALL_AT_ONCE"), 4),
    "canary": (_blue_green("CANARY", CanarySize=1), 4),
    "linear": (_blue_green("LINEAR", LinearStepSize=1), 4),
    "rolling": (_ROLLING, 3),
}
"""Each with the most instances that there may be at once."""


def _away(rig: Rig) -> None:
    """One instance serves on the fallback, and the preferred type has just come back."""
    short_of(0, 9, count=1)(rig)
    rig.call(
        "CreateEndpoint",
        EndpointName=NAME,
        EndpointConfigName=NAME,
        Tags=[{"Key": "headrace:coming-home", "Value": "10m"}],
    )
    rig.run(rig.is_quiet, 60)
    rig.clock.step(890)


def _open_home(rig: Rig) -> None:
    rig.site.set_capacity(FIRST, 9)
    rig.doomed.update(each.provider_id for each in rig.site.real())


CHANGING_OVER = (
    *(
        Scenario(
            *(f"update-{name}", _updatable(), _update(policy), is_wished),
            *(Phase.IN_SERVICE, {SECOND: 2}, most, ("UpdateRequested", "DeploymentFinished")),
        )
        for name, (policy, most) in _POLICIES.items()
    ),
    *(
        Scenario(
            *(f"update-{name}-in-vain", _updatable(OTHER_SECOND_SLOTS_IN_VAIN), _update(_POLICIES[name][0]), is_wished),
            *(Phase.IN_SERVICE, {FIRST: 2}, 3, ("UpdateRequested", "DeploymentUndone"), 900.0),
        )
        for name in ("all-at-once", "rolling")
    ),
    Scenario("come-home", _away, _open_home, is_so, Phase.IN_SERVICE, {FIRST: 1}, 2, ("MoveEnded",), 3600.0),
)
