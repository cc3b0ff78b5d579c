"""The phases of an endpoint and the moves between them.

                       +-------------------- capacity or start failed ----> FAILED
                       |                                                      |
    (create) ----> CREATING ----> IN_SERVICE <---> UPDATING                   |
                       |              ^  |            |                       |
                       |              |  |            v (failed)              |
                       |              +--+------ ROLLING_BACK                 |
                       |                 |            |                       |
                       +-----------------+------------+-----------------------+----> DELETING ----> (gone)

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
    FAILED = "Failed"
    DELETING = "Deleting"


MOVES: dict[Phase, frozenset[Phase]] = {
    Phase.CREATING: frozenset({Phase.IN_SERVICE, Phase.FAILED, Phase.DELETING}),
    Phase.IN_SERVICE: frozenset({Phase.UPDATING, Phase.DELETING}),
    Phase.UPDATING: frozenset({Phase.IN_SERVICE, Phase.ROLLING_BACK, Phase.DELETING}),
    Phase.ROLLING_BACK: frozenset({Phase.IN_SERVICE, Phase.DELETING}),
    Phase.FAILED: frozenset({Phase.DELETING}),
    Phase.DELETING: frozenset(),
}

SERVING = frozenset({Phase.IN_SERVICE, Phase.UPDATING, Phase.ROLLING_BACK})
"""Phases in which calls are routed."""


def sources_of(target: Phase) -> list[Phase]:
    """The phases from which `target` may be entered."""
    return [phase for phase, targets in MOVES.items() if target in targets]
