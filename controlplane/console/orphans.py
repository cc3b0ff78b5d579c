"""Orphans: instances that no endpoint has, what they cost, and what an operator may want done about them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from controlplane.auth.roles import Role
from controlplane.console.access import needs
from controlplane.console.deeds import done
from controlplane.console.live import BUSY_SECONDS, IDLE_SECONDS, Live
from controlplane.core import clock
from controlplane.core.errors import ResourceNotFound
from controlplane.core.words import counted
from controlplane.orphans import selectors, services
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OPEN, OrphanState

LISTED = 200
"""So many are shown, the oldest first; there is no next page, since these have to be dealt with first."""


@dataclass(frozen=True)
class Line:
    """An orphan as it is shown."""

    orphan: Orphan
    state: str
    cost: float | None
    may_adopt: bool
    may_end: bool

    @property
    def account_id(self) -> str:
        """Whose endpoint it was launched for."""
        return self.orphan.account_id

    @property
    def endpoint(self) -> str:
        """The endpoint it was launched for, empty where nobody knows."""
        return self.orphan.endpoint_name


def page(request: HttpRequest) -> HttpResponse:
    """The whole page."""
    has_closed = "all" in request.GET
    context = {
        **admin.site.each_context(request),
        "title": "Orphans",
        "list": _list(has_closed).html(request),
        "has_closed": has_closed,
    }
    return TemplateResponse(request, "console/orphans.html", context)


def part(request: HttpRequest) -> HttpResponse:
    """The list alone."""
    return _list("all" in request.GET).answer(request)


def _list(has_closed: bool) -> Live:
    now = clock.now()
    rows = Orphan.objects.order_by("launched_at", "provider_id")
    rows = rows if has_closed else rows.filter(state__in=OPEN)
    found = list(rows[: LISTED + 1])
    context = {
        "lines": [_line(row, now) for row in found[:LISTED]],
        "has_more": len(found) > LISTED,
        "total": selectors.total(found[:LISTED], now),
        "sweep": Sweep.objects.filter(pk=1).first(),
    }
    url = reverse("admin:orphans_part") + ("?all" if has_closed else "")
    is_busy = any(row.wish or row.state == OrphanState.ENDING for row in found)
    return Live("orphans-list", url, "console/orphan_list.html", context, BUSY_SECONDS if is_busy else IDLE_SECONDS)


def _line(row: Orphan, now: datetime) -> Line:
    is_free = not row.wish
    may_adopt = is_free and row.state == OrphanState.FOUND and row.endpoint_id is not None
    return Line(row, selectors.state_word(row, now), row.cost(now), may_adopt, is_free and row.state in OPEN)


@require_POST
@needs(Role.OPERATOR)
def end(request: HttpRequest, orphan_id: int) -> HttpResponse:
    """Want one ended."""
    return _wish(request, orphan_id, services.ask_end, "{} is to be ended; the workers ask its provider in a moment.")


@require_POST
@needs(Role.OPERATOR)
def adopt(request: HttpRequest, orphan_id: int) -> HttpResponse:
    """Want one given back to its endpoint."""
    return _wish(request, orphan_id, services.ask_adoption, "{} is to be given back to its endpoint.")


@require_POST
@needs(Role.ADMINISTRATOR)
def confirm(request: HttpRequest) -> HttpResponse:
    """Say that what was found are orphans, so that a sweep that is held back goes on: for all accounts, as at the API."""

    def deed() -> str:
        return f"Confirmed: the next sweep deals with {counted(services.confirm_sweep(clock.now()), 'orphan')}."

    return done(request, deed, "admin:orphans")


def _wish(request: HttpRequest, orphan_id: int, service: Callable[[str, int, datetime], Orphan], told: str) -> HttpResponse:
    def deed() -> str:
        row = Orphan.objects.filter(pk=orphan_id).first()
        if row is None:
            raise ResourceNotFound(f"There is no orphan {orphan_id} any more.")
        # One of which nothing is known belongs to the installation's own account (`services.shown_to`).
        return told.format(service(row.account_id or settings.HEADRACE.account_id, orphan_id, clock.now()))

    return done(request, deed, "admin:orphans")
