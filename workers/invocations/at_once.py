"""A request that waits alone, claimed in the moment in which its notification arrives.

    rung ----> nothing runs of its endpoint, and where it may run is known ----> asked for ----> got: it runs
      | else                                                                       | nothing got, or refused
      v                                                                            v
    the rounds claim it (see `rounds`) <-------------------------------------------+

The shortest way from an accept to its model where little is to do: no task is woken between the notification and the
statement, and none between its answer and the run. It goes on beside the rounds, over the connection of their claims.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from controlplane.core import clock
from controlplane.invocations.line import Row
from workers.invocations.crew import Crew
from workers.invocations.known_routes import KnownRoutes, Place
from workers.invocations.leased import Leased
from workers.invocations.queue import Queue
from workers.invocations.reach import Reach

AT_ONCE_LIMIT = 16
"""How many such claims may be under way; where there are more, much is to do, and the rounds do it in turn."""


@dataclass
class AtOnce:
    """Claims requests that wait alone.

    `run` is called with what was claimed, where it is to run, and for how many of the endpoint there was room; `leave` with
    an endpoint that is for the rounds after all.
    """

    queue: Queue
    crew: Crew
    routes: KnownRoutes
    reach: Reach
    run: Callable[[Leased, Place, int], None]
    leave: Callable[[UUID], None]
    _under_way: "dict[UUID, asyncio.Future[list[Row]]]" = field(default_factory=dict)

    def claim(self, endpoint_id: UUID, request_id: UUID) -> bool:
        """Begin to claim this request; False where that is for the rounds."""
        if endpoint_id in self._under_way or len(self._under_way) >= AT_ONCE_LIMIT or self.crew.held(endpoint_id):
            return False
        room = self.crew.room(endpoint_id)
        at = self.routes.first_open(endpoint_id, self.reach.shunned(clock.monotonic()))
        if room <= 0 or at is None:
            return False
        asked = self.queue.ask_alone(endpoint_id, request_id, at, self.routes.revision(endpoint_id))
        self._under_way[endpoint_id] = asked
        asked.add_done_callback(partial(self._answered, endpoint_id, at.place, room))
        return True

    async def end(self) -> None:
        """Wait until nothing is under way: what the database never answers ends with its connection (see `line`)."""
        while self._under_way:
            await asyncio.wait(self._under_way.values())

    def _answered(self, endpoint_id: UUID, place: Place, room: int, asked: "asyncio.Future[list[Row]]") -> None:
        del self._under_way[endpoint_id]
        if asked.cancelled() or asked.exception() is not None or not asked.result():
            self.leave(endpoint_id)  # the rounds hear what is wrong, if anything is
        else:
            self.run(Leased._make(asked.result()[0]), place, room)
