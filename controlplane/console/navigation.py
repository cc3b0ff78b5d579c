"""The menu, by role, and the jump by name (Ctrl-K)."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from unfold.dataclasses import SearchResult

from controlplane.auth.roles import Role
from controlplane.console.access import may
from controlplane.console.places import endpoint as endpoint_url
from controlplane.endpoints.models import Endpoint

JUMPS = 20
"""So many endpoints are offered for what was typed."""


@dataclass(frozen=True)
class Item:
    """A line of the menu: its title, the name of its URL, unfold's icon, and the role that sees it."""

    title: str
    url: str
    icon: str
    role: Role = Role.VIEWER


GROUPS: tuple[tuple[str, tuple[Item, ...]], ...] = (
    (
        "",
        (
            Item("Fleet", "admin:index", "water"),
            Item("Capacity", "admin:capacity", "grid_view"),
            Item("Endpoints", "admin:endpoints", "hub"),
            Item("Async requests", "admin:requests", "inbox"),
            Item("Events", "admin:events", "history"),
            Item("Orphans", "admin:orphans", "link_off"),
        ),
    ),
    (
        "Records",
        (
            Item("Models", "admin:catalog_model_changelist", "deployed_code"),
            Item("Configurations", "admin:catalog_endpointconfig_changelist", "tune"),
            Item("Instances", "admin:fleet_instance_changelist", "dns"),
            Item("Launch attempts", "admin:fleet_launchattempt_changelist", "rocket_launch"),
            Item("Alarms", "admin:metrics_metricalarm_changelist", "notifications"),
        ),
    ),
    (
        "Administration",
        (
            Item("Operators", "admin:console_operator_changelist", "group", Role.ADMINISTRATOR),
            Item("Access keys", "admin:access_keys", "key", Role.ADMINISTRATOR),
            Item("API tokens", "admin:tokens", "token", Role.ADMINISTRATOR),
        ),
    ),
)


def menu(request: HttpRequest) -> list[dict[str, Any]]:
    """The menu as unfold wants it, without what the request's role may not see."""
    groups = []
    for title, items in GROUPS:
        shown = [_line(request, item) for item in items if may(request, item.role)]
        if shown:
            groups.append({"title": title, "separator": bool(title), "items": shown})
    return groups


def _line(request: HttpRequest, item: Item) -> dict[str, Any]:
    link = reverse(item.url)
    here = request.path == link or (item.url != "admin:index" and request.path.startswith(link))
    return {"title": item.title, "icon": item.icon, "link": link, "active": here}


def environment(request: HttpRequest) -> list[str]:
    """The label beside the title: which installation this is."""
    del request
    return [f"{settings.HEADRACE.provider} · {settings.HEADRACE.region}", "info"]


def jump(request: HttpRequest, term: str) -> list[SearchResult]:
    """The endpoints whose names begin with what was typed."""
    del request
    term = term.replace("\x00", "")
    rows = Endpoint.objects.filter(name__istartswith=term).order_by("name").values_list("account_id", "name", "phase")
    return [
        SearchResult(title=name, description=f"Endpoint, {phase}", link=endpoint_url(account_id, name), icon="hub")
        for account_id, name, phase in rows[:JUMPS]
    ]
