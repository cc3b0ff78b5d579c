"""`manage.py scheduler`: the process that finds whatever is due."""

import signal
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.core import clock, stacks
from workers.schedule import Scheduler


class Command(BaseCommand):
    """Runs the scheduler in the foreground."""

    help = "Find endpoints that are due, ring the workers, do what nobody came for, and sweep."

    def handle(self, *args: Any, **options: Any) -> None:
        clock.use(clock.CarriedClock())  # told the time with every heartbeat
        scheduler = Scheduler()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: scheduler.stop())
        stacks.tell_when_asked()
        scheduler.run()
