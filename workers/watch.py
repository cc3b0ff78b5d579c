"""Whether the dispatcher's loop gets anywhere, judged from beside it, by a thread that waits for nothing else.

    it moves ----> looked at again
       |  LOOKS times nothing has moved
       v
    the process is asked to end ----> where everything stands is written to the log; whoever started it starts the next

Every wait of the dispatcher has a bound, and rounds outlive their faults; this is for the wait and the fault of which
nobody thought. A worker that stands still would keep what it has leased, and everybody who waits for it, for ever.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Protocol

from controlplane.core import stacks

LOOK_SECONDS = 5.0

LOOKS = 36
"""Three minutes, where a statement that gets no answer is given up after one at most. Counted in looks and not by a clock,
so that a host that slept for a night has not stood still."""

GRACE_SECONDS = 30.0
"""How long a process may take to end in good order; then it ends as if it were killed."""

log = logging.getLogger(__name__)


class Watched(Protocol):
    """What is looked at."""

    @property
    def moves(self) -> int:
        """Another number than a while ago, if anything is done."""
        ...


class Stillness:
    """How often in a row nothing had moved. Pure."""

    def __init__(self) -> None:
        self._seen = -1
        self._looks = 0

    def is_still(self, moves: int) -> bool:
        """Whether nothing has moved for too long, `moves` being what is seen now."""
        self._looks = self._looks + 1 if moves == self._seen else 0
        self._seen = moves
        return self._looks >= LOOKS


class Watch:
    """Looks at `watched`, which works on `loop`, until told that it may end; calls `end` when it stands still."""

    def __init__(self, watched: Watched, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self._watched, self._loop, self._end = watched, loop, end
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    def stop(self) -> None:
        """The work may end now."""
        self._over.set()

    def _look(self) -> None:
        stillness = Stillness()
        while not self._over.wait(LOOK_SECONDS):
            if stillness.is_still(self._watched.moves):
                self._end()  # first: what it stands still at may be the log
                stacks.tell("the dispatcher stands still, and this worker ends", self._loop)
                return


def end_process() -> None:
    """Ask this process to end as whoever runs it would, and end it if it does not."""
    last = threading.Timer(GRACE_SECONDS, os._exit, [1])
    last.daemon = True
    last.start()
    os.kill(os.getpid(), signal.SIGTERM)
