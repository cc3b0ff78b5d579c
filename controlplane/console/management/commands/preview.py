"""`manage.py preview`: where an endpoint would land if it were created now, what it would cost, and why."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from controlplane.catalog.models import EndpointConfig
from controlplane.catalog.selectors import get_endpoint_config
from controlplane.core import clock
from controlplane.core.errors import ApiError
from controlplane.core.words import counted
from controlplane.fleet import previews
from controlplane.fleet.placement import Landing, Preview, VariantPreview
from controlplane.fleet.preview_requests import checked_options, checked_variants
from controlplane.observability.line_command import LineCommand


class Command(LineCommand):
    """Prints a preview; nothing is created, asked for or changed."""

    help = "Print where the instances of an endpoint would land if it were created now, at what cost, and why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--config", help="name of a stored endpoint configuration")
        what.add_argument("--file", type=Path, help="JSON file with the members of CreateEndpointConfig")
        parser.add_argument("--tag", action="append", default=[], metavar="KEY=VALUE", help="a tag of the endpoint")
        parser.add_argument("--account", default=settings.HEADRACE.account_id)

    def handle(self, *args: Any, config: str | None, file: Path | None, account: str, **options: Any) -> None:
        try:
            plans = _from_file(file) if file else previews.of_config(_stored(account, config or ""))
            found = previews.make(account, plans, checked_options(_tags(options["tag"])), clock.now())
        except ApiError as error:
            raise CommandError(error.message) from error
        self._print(found)

    def _print(self, found: Preview) -> None:
        if found.refusal:
            self.say(f"CreateEndpoint would be refused: {found.refusal}")
        for variant in found.variants:
            self._print_variant(variant)
        if not found.would_serve:
            self.say("It would not come into service.")
        self.say(_sum(found))
        self.say(_time(found))
        if found.seen_at is not None:
            age = (clock.now() - found.seen_at).total_seconds()
            self.say(f"Free slots as of {age:.0f} s ago.")

    def _print_variant(self, variant: VariantPreview) -> None:
        missing = f", {variant.missing} without a place" if variant.missing else ""
        self.say(f"Variant {variant.name}: {counted(variant.wanted, 'instance')} wanted{missing}")
        for sentence in variant.story:
            self.say(f"  {sentence}")
        for rung in variant.ladder:
            offering = rung.offering
            price = "no price" if offering.hourly_price is None else f"{offering.hourly_price:.3f} USD/h"
            place = f"priority {offering.pool.priority}  {offering.pool.instance_type:24} {offering.zone} {offering.market}"
            self.say(f"    {place}  {price}  {rung.standing}{'  ' + rung.why if rung.why else ''}")
        for landing in variant.landings:
            self.say(f"  {_history(landing)}")


def _stored(account: str, name: str) -> EndpointConfig:
    return get_endpoint_config(account, settings.HEADRACE.region, name)


def _from_file(path: Path) -> list[previews.VariantPlan]:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read as JSON: {error}") from error
    variants = document.get("ProductionVariants") if isinstance(document, dict) else document
    if not isinstance(variants, list):
        raise CommandError(f"{path} has no list ProductionVariants.")
    return previews.of_request(checked_variants(variants))


def _tags(pairs: list[str]) -> list[dict[str, str]]:
    tags = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(f"--tag must have the form KEY=VALUE, not {pair!r}.")
        tags.append({"Key": key, "Value": value})
    return tags


def _sum(found: Preview) -> str:
    if found.hourly_cost is None:
        return "Cost: not known, since a type has no price (HEADRACE_PRICES can name it)."
    return f"Cost: {found.hourly_cost:.2f} USD an hour, {found.daily_cost:.2f} USD a day."


def _time(found: Preview) -> str:
    if not found.landings:
        return "Ready: never, since nothing lands anywhere."
    if found.ready_p50_seconds is None:
        return "Ready: not known, since not every type that it lands on has come up here before."
    return f"Ready: after {found.ready_p50_seconds:.0f} s as a rule, {found.ready_p90_seconds:.0f} s in a slow case."


def _history(landing: Landing) -> str:
    name = landing.offering.pool.instance_type
    if landing.boots is None:
        return f"{name} has never come up here before."
    boots = landing.boots
    starts = counted(boots.count, "start")
    return f"{name} took {boots.p50_seconds:.0f} s (half), {boots.p90_seconds:.0f} s (nine in ten), {starts}."
