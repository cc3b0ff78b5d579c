"""The phases of an endpoint and the moves between them.

                       +-------------------- capacity or start failed ----> FAILED
                       |                                                      |
    (create) ----> CREATING ----> IN_SERVICE <---> UPDATING <----+            |
                       |              ^  |          |    |       |            |
                       |              |  |          |    v (a deployment and  |
                       |              |  |          |    |  its way back failed)
                       |              |  |          |    UPDATE_ROLLBACK_FAILED
                       |              |  |          v (a change of capacity failed)
                       |              +--+---- ROLLING_BACK      |            |
                       |                 |          |            |            |
                       +-----------------+----------+------------+------------+----> DELETING ----> (gone)

A deployment that fails is UPDATING until the old revision serves alone again, as on the service this mirrors.

DELETING can be entered from every other phase: unlike the service it mirrors, Headrace deletes an endpoint that is
still being created or updated, and unwinds whatever was under way.
"""

from django.db import models


class Phase(models.TextChoices):
    """Where an endpoint is; the value is the API's EndpointStatus word."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    ROLLING_BACK = "RollingBack"
    UPDATE_ROLLBACK_FAILED = "UpdateRollbackFailed"
    FAILED = "Failed"
    DELETING = "Deleting"


class DeploymentStage(models.TextChoices):
    """Where a running deployment is; its machine is drawn in `workers.fleet.rollout`."""

    PENDING = "pending"
    RETIRING = "retiring"
    PROVISIONING = "provisioning"
    ACTIVATING = "activating"
    BAKING = "baking"
    WAITING = "waiting"
    CLEANING = "cleaning"
    ROLLING_BACK = "rolling back"


MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.CREATING: frozenset({Phase.IN_SERVICE, Phase.FAILED, Phase.DELETING}),
    Phase.IN_SERVICE: frozenset({Phase.UPDATING, Phase.DELETING}),
    Phase.UPDATING: frozenset({Phase.IN_SERVICE, Phase.ROLLING_BACK, Phase.UPDATE_ROLLBACK_FAILED, Phase.DELETING}),
    Phase.ROLLING_BACK: frozenset({Phase.IN_SERVICE, Phase.DELETING}),
    Phase.UPDATE_ROLLBACK_FAILED: frozenset({Phase.UPDATING, Phase.DELETING}),
    Phase.FAILED: frozenset({Phase.DELETING}),
    Phase.DELETING: frozenset(),
}

SERVING = frozenset({Phase.IN_SERVICE, Phase.UPDATING, Phase.ROLLING_BACK, Phase.UPDATE_ROLLBACK_FAILED})
"""Phases in which calls are routed."""


def sources_of(target: Phase) -> list[Phase]:
    """The phases from which `target` may be entered."""
    return [phase for phase, targets in MOVES.items() if target in targets]
