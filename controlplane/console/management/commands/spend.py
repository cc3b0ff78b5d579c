"""`manage.py spend [ENDPOINT]`: what endpoints have cost so far, by variant and instance type."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.selectors import stays_of
from controlplane.fleet.spend import Spend, by_pool, total


class Command(BaseCommand):
    """Prints the cost of each endpoint of an account, boot and drain included, and the sum."""

    help = "Print what an endpoint, or every endpoint of an account, has cost so far, by variant and instance type."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("endpoint", nargs="?")
        parser.add_argument("--account", default=settings.HEADRACE.account_id)

    def handle(self, *args: Any, endpoint: str | None, account: str, **options: Any) -> None:
        rows = Endpoint.objects.filter(account_id=account).order_by("name")
        rows = rows if endpoint is None else rows.filter(name__iexact=endpoint)
        if endpoint is not None and not rows:
            raise CommandError(f"No endpoint named {endpoint!r} in account {account}; a deleted one has no spend.")
        sums = [self._print(row) for row in rows]
        if endpoint is None:
            self.stdout.write(f"All endpoints of account {account}: {sum(sums, Spend())}")

    def _print(self, row: Endpoint) -> Spend:
        lines = by_pool(stays_of(row.id), clock.now())
        self.stdout.write(f"{row.name} ({row.phase}): {total(lines)}")
        for line in lines:
            where = f"{line.variant}  {line.instance_type}"
            self.stdout.write(f"  {where:40} {line.market:10} {line.spend}")
        return total(lines)
