"""What lives beside the tasks of a worker process: the invocation dispatcher and the heartbeat, on one asyncio loop.

The heartbeat is written by the loop that claims and runs invocations, so that a worker whose loop hangs is seen to be
gone, and by nobody else.
"""

import asyncio
import logging
import threading

import uvloop

from workers.invocations.dispatcher import Dispatcher

STOP_SECONDS = 15.0
"""How long a stopping worker waits for its loop; leases of what still runs then expire."""

log = logging.getLogger(__name__)


class Residents:
    """Runs the dispatcher's loop in a thread of its own."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._dispatcher: Dispatcher | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the loop; call once, in the process that does the work."""
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop claiming, let what runs end for a while, and return."""
        if self._thread and self._loop and self._dispatcher:
            self._loop.call_soon_threadsafe(self._dispatcher.stop)
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._loop = runner.get_loop()
            self._dispatcher = Dispatcher()
            runner.run(self._dispatcher.run())
