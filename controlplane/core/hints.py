"""Doorbells: after a commit, tell the workers that something may be due.

A hint carries an id and nothing else, and correctness never needs one: the scheduler's scan finds whatever is due
within seconds. So a hint that cannot be sent is logged and dropped, it expires before the scan would have found the
work anyway, and a broken broker is not asked again for a moment so that it cannot slow the API down.
"""

import logging
from functools import lru_cache
from uuid import UUID

from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

from controlplane.core import clock
from controlplane.core.outside import must_be_outside

RECONCILE = "headrace.reconcile"
"""Task name: look at one endpoint. Argument: its id."""

EXPIRES_SECONDS = 10
BROKER_PAUSE_SECONDS = 2.0
"""How long a broker that failed is left alone."""

log = logging.getLogger(__name__)


class Doorbell:
    """Sends hints through one Celery producer; never fails and never waits long."""

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("headrace-hints", broker=broker_url, set_as_current=False)
        self._app.conf.update(
            broker_connection_timeout=0.5,
            broker_transport_options={"socket_timeout": 0.5, "socket_connect_timeout": 0.5},
            task_ignore_result=True,
        )
        self._quiet_until = 0.0

    def ring(self, task: str, subject: UUID) -> None:
        """Ask a worker to run `task` on `subject` now."""
        must_be_outside("A doorbell")
        if clock.monotonic() < self._quiet_until:
            return
        try:
            self._app.send_task(task, args=[str(subject)], expires=EXPIRES_SECONDS, retry=False, ignore_result=True)
        except (OperationalError, OSError) as error:
            self._quiet_until = clock.monotonic() + BROKER_PAUSE_SECONDS
            log.warning("hint %s lost (the scan will find the work): %s", task, error)


@lru_cache(maxsize=1)
def doorbell() -> Doorbell:
    """This process's doorbell."""
    return Doorbell(settings.HEADRACE.redis_url)


def ring_after_commit(task: str, subject: UUID) -> None:
    """Ring once the current transaction is durable; at once when there is none."""
    transaction.on_commit(lambda: doorbell().ring(task, subject))
