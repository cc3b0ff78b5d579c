"""`manage.py explain ENDPOINT`: the story of an endpoint, with times."""

from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from controlplane.console.endpoint_backlog import backlog_of
from controlplane.core import clock
from controlplane.core.words import counted
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.explanations import Explanation, VariantStory, explain
from controlplane.fleet.in_flight import calls_at
from controlplane.fleet.ladder import Step
from controlplane.fleet.leaving import live_instances
from controlplane.fleet.overdue import is_overdue
from controlplane.observability.line_command import LineCommand
from controlplane.observability.models import Event
from controlplane.observability.stories import story_of


class Command(LineCommand):
    """Prints where an endpoint stands, why, what waits, what was tried and comes next, its cost and every event so far."""

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
            self.say(f"Endpoint {endpoint} no longer exists. Its story:")
        else:
            self._print_state(explain(row, clock.now()))
        self._print_events(story.iterator())

    def _print_state(self, found: Explanation) -> None:
        row = found.endpoint
        self.say(f"Endpoint {row.name} is {row.phase} (configuration {row.config_name}). {found.in_words}")
        if row.failure_reason:
            self.say(f"  Failure: {row.failure_reason}")
        self.say(f"  Now: {row.why or 'nobody has looked at it yet.'}")
        self.say(f"  Next look: {_when(row.look_again_at, found.at)}.")
        if row.is_async:
            self.say(f"  Queue: {backlog_of(row, calls_at(live_instances(row), found.at))}.")
        if found.options.hourly_ceiling is not None:
            self.say(f"  Ceiling: {found.options.hourly_ceiling:.2f} USD/h")
        self.say(f"  Spent: {found.total_spend}")
        for line in found.spend:
            self.say(f"    {line.variant}  {line.instance_type} ({line.market}): {line.spend}")
        for variant in found.variants:
            self._print_variant(variant, found)

    def _print_variant(self, variant: VariantStory, found: Explanation) -> None:
        revision = f" of revision {variant.revision}" if variant.revision != found.endpoint.revision else ""
        counts = f"{variant.current_count} of {variant.desired_count} serving"
        self.say(f"  Variant {variant.name}{revision}: {counts}")
        if variant.rests_until is not None and variant.rests_until > found.at:
            self.say(f"    rests until {variant.rests_until:%H:%M:%S}")
        if variant.gives_up_at is not None:
            self.say(f"    gives up {_when(variant.gives_up_at, found.at)}")
        if variant.start_failures:
            self.say(f"    {counted(variant.start_failures, 'failed start')} in a row: {variant.start_failure_reason}")
        for step in variant.ladder:
            self._print_step(step)
        for each in variant.instances:
            reason = f": {each.reason}" if each.reason else ""
            stage = f"{each.stage}, overdue" if is_overdue(each.stage, each.since, found.at) else each.stage
            since = f"{stage} since {each.since:%H:%M:%S}{reason}"
            self.say(f"    instance {each.id[:8]} {each.instance_type} in {each.zone} {since}")

    def _print_step(self, step: Step) -> None:
        offering = step.rung.offering
        price = "" if offering.hourly_price is None else f"  {offering.hourly_price:.3f} USD/h"
        place = f"{offering.pool.instance_type:24} {offering.zone} {offering.market}{price}"
        states = ", ".join(dict.fromkeys((str(step.state), str(step.rung.standing))))
        self.say(f"    priority {offering.pool.priority}  {place}  {states}")
        self.say(f"      {step.sentence}")

    def _print_events(self, events: Iterable[Event]) -> None:
        self.say("")
        for event in events:
            self.say(f"  {event.at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f"  {event.reason:22} {event.sentence}")


def _when(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"at {at:%H:%M:%S} (in {seconds:.0f} s)" if seconds > 0 else "now"
