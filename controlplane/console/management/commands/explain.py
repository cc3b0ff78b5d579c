"""`manage.py explain ENDPOINT`: the story of an endpoint, with times."""

from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from controlplane.core.words import counted
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.explanations import Explanation, VariantStory, explain
from controlplane.fleet.ladder import Step
from controlplane.fleet.overdue import is_overdue
from controlplane.observability.models import Event
from controlplane.observability.stories import story_of


class Command(BaseCommand):
    """Prints where an endpoint stands, why, what was tried and is tried next, what it has cost, and every event so far."""

    help = "Print the story of an endpoint: which pools were tried, what the provider said, what is tried next and when."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("endpoint")
        parser.add_argument("--account", default=settings.HEADRACE.account_id)

    def handle(self, *args: Any, endpoint: str, account: str, **options: Any) -> None:
        row = Endpoint.objects.filter(account_id=account, name__iexact=endpoint).first()
        story = story_of(account, endpoint, row.id if row else None)
        if row is None and not story.exists():
            raise CommandError(f"No endpoint named {endpoint!r} is or was known in account {account}.")
        if row is None:
            self.stdout.write(f"Endpoint {endpoint} no longer exists. Its story:")
        else:
            self._print_state(explain(row, clock.now()))
        self._print_events(story.iterator())

    def _print_state(self, found: Explanation) -> None:
        row = found.endpoint
        self.stdout.write(f"Endpoint {row.name} is {row.phase} (configuration {row.config_name}). {found.in_words}")
        if row.failure_reason:
            self.stdout.write(f"  Failure: {row.failure_reason}")
        self.stdout.write(f"  Now: {row.why or 'nobody has looked at it yet.'}")
        self.stdout.write(f"  Next look: {_when(row.look_again_at, found.at)}.")
        if found.options.hourly_ceiling is not None:
            self.stdout.write(f"  Ceiling: {found.options.hourly_ceiling:.2f} USD/h")
        self.stdout.write(f"  Spent: {found.total_spend}")
        for line in found.spend:
            self.stdout.write(f"    {line.variant}  {line.instance_type} ({line.market}): {line.spend}")
        for variant in found.variants:
            self._print_variant(variant, found)

    def _print_variant(self, variant: VariantStory, found: Explanation) -> None:
        revision = f" of revision {variant.revision}" if variant.revision != found.endpoint.revision else ""
        counts = f"{variant.current_count} of {variant.desired_count} serving"
        self.stdout.write(f"  Variant {variant.name}{revision}: {counts}")
        if variant.rests_until is not None and variant.rests_until > found.at:
            self.stdout.write(f"    rests until {variant.rests_until:%H:%M:%S}")
        if variant.gives_up_at is not None:
            self.stdout.write(f"    gives up {_when(variant.gives_up_at, found.at)}")
        if variant.start_failures:
            self.stdout.write(
                f"    {counted(variant.start_failures, 'failed start')} in a row: {variant.start_failure_reason}"
            )
        for step in variant.ladder:
            self._print_step(step)
        for each in variant.instances:
            reason = f": {each.reason}" if each.reason else ""
            stage = f"{each.stage}, overdue" if is_overdue(each.stage, each.since, found.at) else each.stage
            since = f"{stage} since {each.since:%H:%M:%S}{reason}"
            self.stdout.write(f"    instance {each.id[:8]} {each.instance_type} in {each.zone} {since}")

    def _print_step(self, step: Step) -> None:
        offering = step.rung.offering
        price = "" if offering.hourly_price is None else f"  {offering.hourly_price:.3f} USD/h"
        place = f"{offering.pool.instance_type:24} {offering.zone} {offering.market}{price}"
        states = ", ".join(dict.fromkeys((str(step.state), str(step.rung.standing))))
        self.stdout.write(f"    priority {offering.pool.priority}  {place}  {states}")
        self.stdout.write(f"      {step.sentence}")

    def _print_events(self, events: Iterable[Event]) -> None:
        self.stdout.write("")
        for event in events:
            self.stdout.write(f"  {event.at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f"  {event.reason:22} {event.sentence}")


def _when(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"at {at:%H:%M:%S} (in {seconds:.0f} s)" if seconds > 0 else "now"
