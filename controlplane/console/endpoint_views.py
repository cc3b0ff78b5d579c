"""The pages of endpoints: the list, one endpoint with its live parts, and its actions."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from controlplane.console import actions, endpoint_chart, endpoint_list, endpoint_page
from controlplane.console import endpoint_words as words
from controlplane.console.endpoint_actions import BY_NAME, OfEndpoint
from controlplane.console.endpoint_instance_actions import OF_INSTANCE, ClearMark
from controlplane.console.endpoint_update import Update
from controlplane.console.live import BUSY_SECONDS, IDLE_SECONDS, Live
from controlplane.core import clock
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase

ENDPOINT_ACTIONS: dict[str, type[OfEndpoint]] = {**BY_NAME, "update": Update}


def index(request: HttpRequest) -> HttpResponse:
    """The list of endpoints; with `select` it has boxes to tick instead of refreshing itself."""
    asked = _asked(request)
    is_selecting = "select" in request.GET
    context = {
        **admin.site.each_context(request),
        "title": "Endpoints",
        "asked": asked,
        "totals": endpoint_list.totals(),
        "is_selecting": is_selecting,
        "rows": _rows(request, asked).html(request) if not is_selecting else None,
        "page": endpoint_list.page(asked) if is_selecting else None,
        "query": _query(request),
    }
    return TemplateResponse(request, "console/endpoint/list.html", context)


def rows(request: HttpRequest) -> HttpResponse:
    """The list's rows alone."""
    return _rows(request, _asked(request)).answer(request)


def page(request: HttpRequest, account_id: str, name: str) -> HttpResponse:
    """One endpoint; of one that is gone, its story."""
    endpoint = endpoint_page.find(account_id, name)
    story = endpoint_page.story(account_id, name, endpoint)
    if endpoint is None and not story.exists():
        raise Http404(f"No endpoint {name} is or was known in account {account_id}.")
    name = endpoint.name if endpoint else name
    context = {**admin.site.each_context(request), "title": f"Endpoint {name}", "account_id": account_id, "name": name}
    events = _events(request, account_id, name, endpoint).html(request)
    if endpoint is None:
        return TemplateResponse(request, "console/endpoint/gone.html", {**context, "events": events})
    context |= {
        "endpoint": endpoint,
        "events": events,
        "state": _state(request, endpoint).html(request),
        "charts": _charts(request, endpoint).html(request),
        "revisions": endpoint_page.revisions(endpoint),
        "tags": endpoint_page.tags(endpoint),
    }
    return TemplateResponse(request, "console/endpoint/page.html", context)


def part(request: HttpRequest, account_id: str, name: str, part: str) -> HttpResponse:
    """A part of an endpoint's page for itself."""
    endpoint = endpoint_page.find(account_id, name)
    if part == "events":
        return _events(request, account_id, name, endpoint).answer(request)
    if endpoint is None:
        return _gone()
    parts = {"state": _state, "charts": _charts}
    if part not in parts:
        raise Http404
    return parts[part](request, endpoint).answer(request)


@actions.operator
def act(request: HttpRequest, account_id: str, name: str, action: str) -> HttpResponse:
    """An action on an endpoint."""
    if action not in ENDPOINT_ACTIONS:
        raise Http404
    return actions.run(request, ENDPOINT_ACTIONS[action](account_id, name))


@actions.operator
def act_on_instance(request: HttpRequest, account_id: str, name: str, instance_id: str, action: str) -> HttpResponse:
    """An action on one of its instances."""
    if action not in OF_INSTANCE:
        raise Http404
    return actions.run(request, OF_INSTANCE[action](account_id, name, UUID(instance_id)))


@actions.operator
def clear_mark(request: HttpRequest, account_id: str, name: str, mark_id: str) -> HttpResponse:
    """Forgetting a refusal, from the page of an endpoint that it keeps waiting."""
    return actions.run(request, ClearMark(account_id, int(mark_id), reverse("admin:endpoint", args=(account_id, name))))


def _asked(request: HttpRequest) -> endpoint_list.Asked:
    status = request.GET.get("status", "")
    order = request.GET.get("order", "")
    return endpoint_list.Asked(
        text=_given(request, "q", 63),
        status=status if status in Phase.values else "",
        order=order if order == endpoint_list.BY_CHANGE else endpoint_list.BY_NAME,
        after=_given(request, "after", 200),
    )


def _given(request: HttpRequest, name: str, limit: int) -> str:
    """What the address says, without what no database keeps in a text."""
    return request.GET.get(name, "").replace("\x00", "").strip()[:limit]


def _query(request: HttpRequest) -> str:
    """The search without the place in it, for links."""
    kept = {name: value for name, value in request.GET.items() if name in ("q", "status", "order") and value}
    return urlencode(kept)


def _rows(request: HttpRequest, asked: endpoint_list.Asked) -> Live:
    found = endpoint_list.page(asked)
    place = {"after": asked.after} if asked.after else {}
    here = urlencode({"q": asked.text, "status": asked.status, "order": asked.order, **place})
    is_moving = any(row.status in words.IN_PROGRESS for row in found.rows)
    return Live(
        "rows",
        f"{reverse('admin:endpoint_rows')}?{here}",
        "console/endpoint/rows.html",
        {"page": found, "asked": asked, "query": _query(request), "is_selecting": False},
        BUSY_SECONDS if is_moving else IDLE_SECONDS,
    )


def _part_url(account_id: str, name: str, part: str) -> str:
    return reverse("admin:endpoint_part", args=(account_id, name, part))


def _state(request: HttpRequest, endpoint: Endpoint) -> Live:
    found = endpoint_page.state(endpoint, clock.now())
    context: dict[str, Any] = {
        "state": found,
        "endpoint": endpoint,
        "options": list(words.options(found.explanation.options)),
        "now": clock.now(),
    }
    seconds = BUSY_SECONDS if found.is_moving else IDLE_SECONDS
    return Live(
        "state", _part_url(endpoint.account_id, endpoint.name, "state"), "console/endpoint/state.html", context, seconds
    )


def _charts(request: HttpRequest, endpoint: Endpoint) -> Live:
    del request
    rows = endpoint.variants.filter(retired_at=None).order_by("position").values_list("name", flat=True)
    found = endpoint_chart.charts(endpoint, list(dict.fromkeys(rows)), clock.now())
    url = _part_url(endpoint.account_id, endpoint.name, "charts")
    return Live("charts", url, "console/endpoint/charts.html", {"charts": found, "endpoint": endpoint}, IDLE_SECONDS)


def _events(request: HttpRequest, account_id: str, name: str, endpoint: Endpoint | None) -> Live:
    del request
    found = list(endpoint_page.story(account_id, name, endpoint)[: endpoint_page.EVENTS_SHOWN + 1])
    shown = found[: endpoint_page.EVENTS_SHOWN]
    is_moving = endpoint is not None and endpoint.phase in words.IN_PROGRESS
    return Live(
        "events",
        _part_url(account_id, name, "events"),
        "console/endpoint/events.html",
        {"events": shown, "has_more": len(found) > len(shown), "name": name},
        BUSY_SECONDS if is_moving else IDLE_SECONDS,
    )


def _gone() -> HttpResponse:
    """What a part is replaced by once its endpoint is gone: the page is loaded again, and tells the story."""
    return HttpResponse(headers={"HX-Refresh": "true"})
