"""The states of an orphan and the moves between them.

    (first seen) ----> FOUND ----> ENDING ----> GONE ----> (seen again: FOUND)
                         | |        ^  |          ^
                         | |        |  +- asked again, each sweep, until the provider no longer lists it
                         | |        |             |
                         | +------- | ------------+  (somebody else ended it)
                         +----> ADOPTED ----------+  (it has an endpoint: the fleet looks after it, to its end)
                                    (lost once more: FOUND)

FOUND: reported and nothing else: it is too early, the sweep only reports, or it is held back. ENDING: its end was asked
for. ADOPTED: its endpoint has it again.
"""

from django.db import models


class OrphanState(models.TextChoices):
    """See the graph in the module docstring."""

    FOUND = "found"
    ENDING = "ending"
    ADOPTED = "adopted"
    GONE = "gone"


OPEN = (OrphanState.FOUND, OrphanState.ENDING)
"""States in which the instance lives and nobody has it."""

MOVES: dict[OrphanState, frozenset[OrphanState]] = {
    OrphanState.FOUND: frozenset({OrphanState.ENDING, OrphanState.ADOPTED, OrphanState.GONE}),
    OrphanState.ENDING: frozenset({OrphanState.GONE}),
    OrphanState.ADOPTED: frozenset({OrphanState.FOUND, OrphanState.GONE}),
    OrphanState.GONE: frozenset({OrphanState.FOUND}),
}


def sources_of(target: OrphanState) -> list[OrphanState]:
    """The states from which `target` may be entered."""
    return [state for state, targets in MOVES.items() if target in targets]


class OrphanWish(models.TextChoices):
    """What an operator wants done about an orphan, until a worker has done it or said why not."""

    NONE = ""
    END = "end"
    ADOPT = "adopt"
