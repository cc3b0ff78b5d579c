"""The front page: what is wrong, what runs, what waits, what it costs. Each part refreshes by itself (`live`)."""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from controlplane.console import fleet_selectors, trouble_selectors
from controlplane.console.history import lines, window_before
from controlplane.console.honeycomb import CELLS, STAGES, aggregated, combs
from controlplane.console.live import BUSY_SECONDS, IDLE_SECONDS, Live
from controlplane.console.money import bill
from controlplane.console.problems import problems
from controlplane.core import clock

HISTORY_SECONDS = 60


def page(request: HttpRequest) -> HttpResponse:
    """The whole page."""
    now = clock.now()
    parts = {name: make(request, now).html(request) for name, make in PARTS.items()}
    context = {**admin.site.each_context(request), "title": "Fleet", "parts": parts}
    return TemplateResponse(request, "console/front.html", context)


def part(request: HttpRequest, part: str) -> HttpResponse:
    """One of its parts, for itself."""
    if part not in PARTS:
        raise Http404(f"There is no part {part!r}.")
    return PARTS[part](request, clock.now()).answer(request)


def _now(request: HttpRequest, now: datetime) -> Live:
    """The figures, and what is wrong."""
    facts = trouble_selectors.facts(now)
    counts = fleet_selectors.counts()
    found = problems(facts, now)
    context = {"counts": counts, "problems": found, "waiting": facts.backlogs.total, "bill": _today(now)}
    return _part("now", context, BUSY_SECONDS if counts.is_changing or found else IDLE_SECONDS)


def _comb(request: HttpRequest, now: datetime) -> Live:
    by_type = request.GET.get("by") == "type"
    crowds = fleet_selectors.crowds(now)
    if sum(crowd.count for crowd in crowds) > CELLS:
        by_type = True
        bees, per_cell = aggregated(crowds)
    else:
        bees, per_cell = fleet_selectors.bees(by_type, now), 1
    context = {"combs": combs(bees), "by_type": by_type, "per_cell": per_cell, "cells": len(bees), "stages": STAGES}
    is_changing = any(bee.stage != "ready" for bee in bees)
    query = "?by=type" if request.GET.get("by") == "type" else ""
    return _part("comb", context, BUSY_SECONDS if is_changing else IDLE_SECONDS, query)


def _history(request: HttpRequest, now: datetime) -> Live:
    window = window_before(now, fleet_selectors.first_launch())
    found = lines(window, *fleet_selectors.changes(window))
    chart = {
        "labels": [f"{window.moment(place):%H:%M}" for place in range(window.steps)],
        "lines": [{"name": line.name, "values": line.values} for line in found],
        "stacked": True,
        "stepped": True,
        "unit": "instances",
    }
    hours = round(window.step * window.steps / timedelta(hours=1))
    return _part("history", {"chart": chart, "is_empty": not found, "hours": hours}, HISTORY_SECONDS)


def _waits(request: HttpRequest, now: datetime) -> Live:
    backlogs = trouble_selectors.backlogs(now)
    return _part("waits", {"backlogs": backlogs}, BUSY_SECONDS if backlogs.lines else IDLE_SECONDS)


def _spend(request: HttpRequest, now: datetime) -> Live:
    return _part("spend", {"bill": _today(now)}, IDLE_SECONDS)


def _today(now: datetime):
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return bill(fleet_selectors.spend_groups(midnight, now))


def _latest(request: HttpRequest, now: datetime) -> Live:
    return _part("latest", {"events": fleet_selectors.latest_events()}, BUSY_SECONDS)


def _part(name: str, context: dict[str, object], seconds: int, query: str = "") -> Live:
    url = reverse("admin:front_part", args=(name,)) + query
    return Live(f"fleet-{name}", url, f"console/fleet/{name}.html", context, seconds)


PARTS: dict[str, Callable[[HttpRequest, datetime], Live]] = {
    "now": _now,
    "comb": _comb,
    "history": _history,
    "waits": _waits,
    "spend": _spend,
    "latest": _latest,
}
"""The parts in the order of the page."""
