"""The Celery application of the workers: the doorbell, not the queue.

A task carries an id and nothing else. Losing, repeating or delaying any message changes no outcome: what is due stands
in PostgreSQL, and whoever comes holds a claim on the row.
"""

import os

import django
from celery import Celery
from celery.bootsteps import StartStopStep
from celery.signals import setup_logging, worker_init, worker_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
django.setup()

from django.conf import settings  # noqa: E402 - the settings exist only after setup

from controlplane.core import clock, stacks  # noqa: E402
from workers.residents import Residents  # noqa: E402 - imports models

app = Celery("headrace", broker=settings.HEADRACE.redis_url)
app.conf.update(
    include=["workers.tasks"],
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"socket_keepalive": True, "health_check_interval": 10, "socket_timeout": 30},
)

_residents = Residents()


@setup_logging.connect
def keep_logging(**_: object) -> None:
    """Leave logging as Django's settings have it; without a receiver Celery would set up its own."""


@worker_init.connect
def start_residents(**_: object) -> None:
    """Start what lives as long as the worker: the dispatcher of asynchronous invocations and the heartbeat."""
    clock.use(clock.CarriedClock())  # told the time with every heartbeat
    _residents.start()


class TellWhere(StartStopStep):
    """SIGUSR1 asks where everything is: a step, since Celery takes the signal for itself after its own signals are sent."""

    requires = {"celery.worker.components:Pool"}

    def start(self, parent: object) -> None:
        stacks.tell_when_asked(lambda: _residents.loop)


app.steps["worker"].add(TellWhere)


@worker_shutdown.connect
def stop_residents(**_: object) -> None:
    """Let running invocations end or give their leases back."""
    _residents.stop()
