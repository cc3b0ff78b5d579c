"""What lives beside the tasks of a worker process: the invocation dispatcher and the heartbeat, on one asyncio loop.

The heartbeat is written by the loop that claims and runs invocations, so that a worker whose loop hangs is seen to be
gone, and by nobody else; a watch beside it ends the process then.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import uvloop

from workers.invocations.dispatcher import Dispatcher
from workers.watch import Watch, end_process

STOP_SECONDS = 15.0
"""How long a stopping worker waits for its loop; leases of what still runs then expire."""

log = logging.getLogger(__name__)


class Residents:
    """Runs the dispatcher's loop in a thread of its own; `end` is called if it stands still, or ends unasked."""

    def __init__(self, end: Callable[[], None] = end_process) -> None:
        self._end = end
        self._thread: threading.Thread | None = None
        self._dispatcher: Dispatcher | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watch: Watch | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Start the loop; call once, in the process that does the work."""
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop claiming, let what runs end for a while, and return."""
        self._is_stopping = True
        if self._watch:
            self._watch.stop()
        if self._thread and self._loop and self._dispatcher:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._dispatcher.stop)
            self._thread.join(STOP_SECONDS)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop, once it is there."""
        return self._loop

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:
            log.critical("the dispatcher has ended by a fault", exc_info=True)
        if not self._is_stopping:
            self._end()

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._loop = runner.get_loop()
            self._dispatcher = Dispatcher()
            self._watch = Watch(self._dispatcher, self._loop, self._end)
            self._watch.start()
            try:
                runner.run(self._dispatcher.run())
            finally:
                self._watch.stop()
