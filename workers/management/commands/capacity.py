"""`manage.py capacity TYPE SLOTS`: rehearse a shortage, or its end, on the `local` or `simulated` provider."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from controlplane.core.actor import SHELL, acting
from controlplane.core.errors import ValidationException
from controlplane.core.words import counted
from controlplane.observability import rehearsals as wanted
from workers import rehearsals


class Command(BaseCommand):
    """Sets how many instances of a type may live at once, and forgets what was remembered of its shortage."""

    help = "Set how many instances of a type may live at once (0 = none); running ones are left alone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("instance_type")
        parser.add_argument("slots", type=int)

    def handle(self, *args: Any, instance_type: str, slots: int, **options: Any) -> None:
        env, now = settings.HEADRACE, clock.now()
        try:
            with acting(SHELL):
                row = wanted.want(env.provider, instance_type, slots, account_id=env.account_id, now=now)
        except ValidationException as error:
            raise CommandError(error.message) from error
        rehearsals.apply(clock.now())
        row.refresh_from_db()
        if row.failure:
            raise CommandError(row.failure)
        self.stdout.write(f"{instance_type}: {counted(slots, 'slot')} from now on; its capacity mark is cleared.")
