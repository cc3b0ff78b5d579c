"""`manage.py explain ENDPOINT`: the story of an endpoint, with times."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.fleet.states import InstanceStage
from controlplane.observability.models import Event


class Command(BaseCommand):
    """Prints where an endpoint stands, why, what is tried next and when, and every event so far."""

    help = "Print the story of an endpoint: which pools were tried, what the provider said, what is tried next and when."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("endpoint")
        parser.add_argument("--account", default=settings.HEADRACE.account_id)

    def handle(self, *args: Any, endpoint: str, account: str, **options: Any) -> None:
        row = Endpoint.objects.filter(account_id=account, name__iexact=endpoint).first()
        told = Event.objects.filter(account_id=account, subject_name__iexact=endpoint).order_by("id")
        last = told.last()
        if last is None:
            raise CommandError(f"No endpoint named {endpoint!r} is or was known in account {account}.")
        events = told.filter(subject_id=row.id if row else last.subject_id)
        if row is None:
            self.stdout.write(f"Endpoint {endpoint} no longer exists. Its story:")
        else:
            self._print_state(row)
        self._print_events(events)

    def _print_state(self, row: Endpoint) -> None:
        now = clock.now()
        self.stdout.write(f"Endpoint {row.name} is {row.phase} (configuration {row.config_name}).")
        if row.failure_reason:
            self.stdout.write(f"  Failure: {row.failure_reason}")
        self.stdout.write(f"  Now: {row.why or 'nobody has looked at it yet.'}")
        self.stdout.write(f"  Next look: {_when(row.look_again_at, now)}.")
        marks = {mark.instance_type: mark for mark in CapacityMark.objects.all()}
        for variant in row.variants.prefetch_related("pools"):
            self.stdout.write(f"  Variant {variant.name}: {variant.current_count} of {variant.desired_count} serving")
            if variant.provision_deadline and variant.current_count < variant.desired_count:
                self.stdout.write(f"    gives up {_when(variant.provision_deadline, now)}")
            for pool in variant.pools.all():
                mark = marks.get(pool.instance_type)
                closed = mark is not None and mark.until > now
                note = f"  closed {_when(mark.until, now)}: {mark.message}" if mark is not None and closed else ""
                self.stdout.write(
                    f"    priority {pool.priority}  {pool.instance_type:24} {pool.current_count} serving{note}"
                )
            for instance in Instance.objects.filter(variant=variant).exclude(stage=InstanceStage.TERMINATED):
                self.stdout.write(f"    instance {str(instance.id)[:8]} {instance.instance_type} {instance.stage}")

    def _print_events(self, events: Any) -> None:
        self.stdout.write("")
        for event in events.iterator():
            self.stdout.write(f"  {event.at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + f"  {event.reason:22} {event.sentence}")


def _when(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"at {at:%H:%M:%S} (in {seconds:.0f} s)" if seconds > 0 else "now"
