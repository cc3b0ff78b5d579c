"""The front page: what is wrong, what runs, what waits, what it costs. Each part refreshes by itself (`live`)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from controlplane.console import fleet_selectors, trouble_selectors
from controlplane.console.facts import Backlogs
from controlplane.console.history import Line, colours, lines, window_before
from controlplane.console.honeycomb import CELLS, STAGES, aggregated, combs
from controlplane.console.live import BUSY_SECONDS, IDLE_SECONDS, Live
from controlplane.console.money import Bill, bill
from controlplane.console.problems import problems
from controlplane.core import clock

HISTORY_SECONDS = 60


@dataclass(frozen=True)
class Look:
    """One look at the installation, at `now`. What several parts tell of is read once, by the first that asks for it."""

    request: HttpRequest
    now: datetime

    @cached_property
    def backlogs(self) -> Backlogs:
        """What waits at asynchronous endpoints."""
        return trouble_selectors.backlogs(self.now)

    @cached_property
    def bill(self) -> Bill:
        """What has been spent since midnight, UTC."""
        midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0)
        return bill(fleet_selectors.spend_groups(midnight, self.now))


def page(request: HttpRequest) -> HttpResponse:
    """The whole page."""
    look = Look(request, clock.now())
    parts = {name: make(look).html(request) for name, make in PARTS.items()}
    context = {**admin.site.each_context(request), "title": "Fleet", "parts": parts}
    return TemplateResponse(request, "console/front.html", context)


def part(request: HttpRequest, part: str) -> HttpResponse:
    """One of its parts, for itself."""
    if part not in PARTS:
        raise Http404(f"There is no part {part!r}.")
    return PARTS[part](Look(request, clock.now())).answer(request)


def _now(look: Look) -> Live:
    """The figures, and what is wrong."""
    counts = fleet_selectors.counts()
    found = problems(trouble_selectors.facts(look.backlogs, look.now), look.now)
    context = {"counts": counts, "problems": found, "waiting": look.backlogs.total, "bill": look.bill}
    return _part("now", context, BUSY_SECONDS if counts.is_changing or found else IDLE_SECONDS)


def _comb(look: Look) -> Live:
    """The honeycomb, by type where asked for, or where there are too many instances for a cell each."""
    is_asked_by_type = look.request.GET.get("by") == "type"
    crowds = fleet_selectors.crowds(look.now)
    is_crowded = sum(crowd.count for crowd in crowds) > CELLS
    by_type = is_asked_by_type or is_crowded
    bees, per_cell = aggregated(crowds) if is_crowded else (fleet_selectors.bees(by_type, look.now), 1)
    context = {"combs": combs(bees), "by_type": by_type, "per_cell": per_cell, "cells": len(bees), "stages": STAGES}
    is_changing = any(bee.stage != "ready" for bee in bees)
    query = "?by=type" if is_asked_by_type else ""
    return _part("comb", context, BUSY_SECONDS if is_changing else IDLE_SECONDS, query)


def _history(look: Look) -> Live:
    window = window_before(look.now, fleet_selectors.first_launch())
    found = lines(window, *fleet_selectors.changes(window))
    chart = {
        "labels": [f"{window.moment(place):%H:%M}" for place in range(window.steps)],
        "lines": _drawn(found),
        "stacked": True,
        "stepped": True,
        "unit": "instances",
    }
    hours = round(window.step * window.steps / timedelta(hours=1))
    return _part("history", {"chart": chart, "is_empty": not found, "hours": hours}, HISTORY_SECONDS)


def _drawn(found: tuple[Line, ...]) -> list[dict[str, object]]:
    """The lines as console.js draws them; a type has the same place in its palette whatever their order."""
    places = colours([line.name for line in found])
    return [{"name": line.name, "values": line.values, "place": places[line.name]} for line in found]


def _waits(look: Look) -> Live:
    return _part("waits", {"backlogs": look.backlogs}, BUSY_SECONDS if look.backlogs.lines else IDLE_SECONDS)


def _spend(look: Look) -> Live:
    return _part("spend", {"bill": look.bill}, IDLE_SECONDS)


def _latest(look: Look) -> Live:
    del look
    return _part("latest", {"events": fleet_selectors.latest_events()}, BUSY_SECONDS)


def _part(name: str, context: dict[str, object], seconds: int, query: str = "") -> Live:
    url = reverse("admin:front_part", args=(name,)) + query
    return Live(f"fleet-{name}", url, f"console/fleet/{name}.html", context, seconds)


PARTS: dict[str, Callable[[Look], Live]] = {
    "now": _now,
    "comb": _comb,
    "history": _history,
    "waits": _waits,
    "spend": _spend,
    "latest": _latest,
}
"""The parts in the order of the page."""
