"""`manage.py quota [NAME [LIMIT]]`: see and set how many instances an account may want at once."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.auth.models import Account
from controlplane.catalog import limits, quotas
from controlplane.catalog.instance_types import known_instance_types
from controlplane.core import clock
from controlplane.core.actor import SHELL, acting
from controlplane.core.words import counted
from controlplane.endpoints.usage import usage_of


class Command(BaseCommand):
    """Prints an account's quotas with what is used of each, or changes one."""

    help = 'Print quotas, or set one: quota ml.g5.2xlarge 4; quota "*" 20 for all types together; --drop removes one.'

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help='an instance type, or "*" for all types together')
        parser.add_argument("limit", nargs="?", type=int, help="instances wanted at once")
        parser.add_argument("--drop", action="store_true", help="forget the account's own limit of this name")
        parser.add_argument("--account", default=settings.HEADRACE.account_id)

    def handle(self, *args: Any, name: str | None, limit: int | None, account: str, **options: Any) -> None:
        if not Account.objects.filter(pk=account).exists():
            raise CommandError(f"There is no account {account}.")
        if name is not None and name != quotas.ALL and name not in known_instance_types():
            raise CommandError(f'{name!r} is neither an instance type nor "*".')
        with acting(SHELL):
            if options["drop"]:
                self._drop(account, name)
            elif name is not None and limit is not None:
                self._set(account, name, limit)
        self._print(account, name)

    def _drop(self, account: str, name: str | None) -> None:
        if name is None:
            raise CommandError("Name the quota to drop.")
        if not limits.drop_limit(account, name, now=clock.now()):
            raise CommandError(f"Account {account} has no quota of its own for {name!r}.")

    def _set(self, account: str, name: str, limit: int) -> None:
        if limit < 0:
            raise CommandError("A quota is a number of instances, 0 or more.")
        limits.set_limit(account, name, limit, now=clock.now())

    def _print(self, account: str, name: str | None) -> None:
        found = limits.limits_of(account)
        chosen = {each: limit for each, limit in sorted(found.items()) if name in (None, each)}
        if not chosen:
            self.stdout.write(f"Account {account} has no quota{'' if name is None else ' for ' + name}: no limit.")
            return
        usage = usage_of(account, {})
        waiting = sum(demand.count for demand in usage.open)
        for each, limit in chosen.items():
            used = usage.total if each == quotas.ALL else usage.placed.get(each, 0)
            self.stdout.write(f"{each:24} {used} of {limit} in use")
        if waiting:
            self.stdout.write(f"Not there yet: {counted(waiting, 'wanted instance')}; they count wherever they fit.")
