"""Those who wait for their requests to be stored. Each is told once how it ended, and by then in bounded time.

    waiting ----> told: it is durable, or what is wrong
       |--------> told that it is too late, WAIT_SECONDS after it came
       +--------> left: whoever gave up is told nothing

Neither a future nor a timer is made for each of them: what an accept costs the gateway is such small things, and little
else.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from controlplane.core.errors import ServiceUnavailable
from controlplane.invocations.accepted import Accepted

WAIT_SECONDS = 5.0
"""How long a caller waits for the database before it is told to come back."""

Tell = Callable[[BaseException | None], None]
"""Is told once: None for a request that is durable, else what is wrong."""

log = logging.getLogger(__name__)


def too_late() -> ServiceUnavailable:
    """What a caller is told whose request the database did not take in time."""
    return ServiceUnavailable("The request could not be stored in time. Try again.")


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that is to be stored, and who is to be told."""

    request: Accepted
    tell: Tell


class WaitingRoom:
    """All who wait, for one event loop."""

    def __init__(self) -> None:
        self._until: dict[Waiting, float] = {}
        """How long each waits, by the loop's time; who came first is first."""
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, waiting: Waiting) -> bool:
        return waiting in self._until

    def enter(self, request: Accepted, tell: Tell) -> Waiting:
        """One more who waits."""
        waiting, loop = Waiting(request, tell), asyncio.get_running_loop()
        self._until[waiting] = loop.time() + WAIT_SECONDS
        if self._timer is None:
            self._timer = loop.call_later(WAIT_SECONDS, self._look)
        return waiting

    def leave(self, waiting: Waiting) -> None:
        """Tell nothing to one who waits no longer."""
        self._until.pop(waiting, None)

    def tell(self, waiting: Waiting, fault: BaseException | None) -> None:
        """Tell one how it ended, who waits no longer; nothing to whoever was told or has left."""
        if self._until.pop(waiting, None) is None:
            return
        try:
            waiting.tell(fault)
        except Exception:  # a fault in telling one must not keep the others waiting
            log.exception("whoever asked for request %s could not be told", waiting.request.id)

    def _look(self) -> None:
        """Tell those who have waited for too long, and look again when the next one will have."""
        loop, self._timer = asyncio.get_running_loop(), None
        now = loop.time()
        for waiting, until in list(self._until.items()):
            if until > now:
                self._timer = loop.call_at(until, self._look)
                return
            self.tell(waiting, too_late())
