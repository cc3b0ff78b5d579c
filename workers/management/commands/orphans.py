"""`manage.py orphans`: instances that no endpoint has, what they cost, and what was done about them."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError

from controlplane.core import clock
from controlplane.core.actor import SHELL, acting
from controlplane.core.words import counted
from controlplane.observability.line_command import LineCommand
from controlplane.orphans import selectors, services
from controlplane.orphans.models import Orphan, Sweep
from workers.sweep import by_hand
from workers.sweep.adopt import CannotAdopt

COLUMNS = ("id", "type", "zone", "age", "attempt", "endpoint", "USD/h", "USD so far", "state")


class Command(LineCommand):
    """Prints the report; with --kill, --adopt or --confirm an operator decides."""

    help = "Report the instances that carry this installation's name and that no endpoint has, with what they cost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="also those that are gone or adopted by now")
        choice = parser.add_mutually_exclusive_group()
        choice.add_argument("--dry-run", action="store_true", help="look now and say what a sweep would do; do nothing")
        choice.add_argument("--kill", metavar="ID", help="end this orphan now, whatever the sweep may do")
        choice.add_argument("--adopt", metavar="ID", help="give this orphan back to the endpoint that lacks it")
        choice.add_argument("--confirm", action="store_true", help="they are orphans: let a sweep that is held back go on")

    def handle(self, *args: Any, **options: Any) -> None:
        now = clock.now()
        if options["dry_run"]:
            self._dry_run()
        elif options["kill"]:
            self._by_hand(by_hand.kill, options["kill"], now)
        elif options["adopt"]:
            self._by_hand(by_hand.adopt, options["adopt"], now)
        elif options["confirm"]:
            with acting(SHELL):
                confirmed = services.confirm_sweep(now)
            self.say(f"Confirmed: the next sweep deals with {counted(confirmed, 'orphan')}.")
        else:
            self._report(now, has_closed=options["all"])

    def _report(self, now: datetime, *, has_closed: bool) -> None:
        state = Sweep.objects.filter(pk=1).first()
        if state is not None and state.held_since is not None:
            self.say(f"HELD BACK since {state.held_since:%Y-%m-%d %H:%M:%S}: {state.held_why}.")
            self.say("Nothing is ended before `manage.py orphans --confirm`.")
            self.say()
        rows = selectors.orphans(has_closed=has_closed)
        if not rows:
            self.say("No orphans.")
            return
        self._table([_line(row, now) for row in rows])
        for row in rows:
            self.say(f"  {row.provider_id}: {row.origin}. {row.reason}".rstrip(". ") + ".")
        self.say(selectors.total(rows, now))

    def _table(self, lines: list[tuple[str, ...]]) -> None:
        widths = [max(len(line[place]) for line in [COLUMNS, *lines]) for place in range(len(COLUMNS))]
        for line in [COLUMNS, *lines]:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.say("  ".join(cells).rstrip())

    def _dry_run(self) -> None:
        found = by_hand.preview(clock.now())
        if found is None:
            raise CommandError("The provider could not be asked; try again.")
        for line in found:
            self.say(line)
        self.say(f"{counted(len(found), 'suspect')}. Nothing was done.")

    def _by_hand(self, deed: Any, provider_id: str, now: datetime) -> None:
        try:
            with acting(SHELL):
                self.say(deed(provider_id, now))
        except (CannotAdopt, by_hand.CannotEnd) as error:
            raise CommandError(f"{error}.") from error


def _line(row: Orphan, now: datetime) -> tuple[str, ...]:
    cost = row.cost(now)
    return (
        row.provider_id,
        row.instance_type,
        row.zone,
        selectors.age(row, now),
        row.token[:8],
        row.endpoint_name or "-",
        "?" if row.hourly_price is None else f"{row.hourly_price:.3f}",
        "?" if cost is None else f"{cost:.2f}",
        selectors.state_word(row, now),
    )
