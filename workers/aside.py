"""Work beside the scan, in a thread of its own: a slow provider or a fault there keeps nothing else waiting."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from django.db import close_old_connections, connections

log = logging.getLogger(__name__)


class Aside:
    """Runs one round at a time of whatever it was given."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._name = name
        self._run = run
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._round: Future[None] | None = None
        self._starting = Lock()

    def start(self) -> bool:
        """Start a round; False while the one before still runs."""
        with self._starting:  # a round that is quick off the mark must find itself known
            if self._round is not None and not self._round.done():
                return False
            self._round = self._pool.submit(self._go)
        return True

    def stop(self) -> None:
        """Return when the round that runs has ended and its connection is given back."""
        self._pool.submit(connections.close_all)
        self._pool.shutdown()

    def _go(self) -> None:
        try:
            self._run()
        except Exception:
            # The next round takes up from what is stored.
            log.exception("%s: the round failed, the next one goes on", self._name)
        finally:
            close_old_connections()
