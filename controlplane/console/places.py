"""Where in the console something is told of: the address of its page."""

from typing import Any
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

_PAGES = {
    "fleet": "admin:index",
    "capacity": "admin:capacity",
    "endpoints": "admin:endpoints",
    "requests": "admin:requests",
    "events": "admin:events",
    "orphans": "admin:orphans",
    "instances": "admin:fleet_instance_changelist",
    "alarms": "admin:metrics_metricalarm_changelist",
    "access_keys": "admin:access_keys",
    "tokens": "admin:tokens",
}
_SUBJECTS = {"capacity-mark": "capacity", "orphan": "orphans", "instance": "orphans", "access-key": "access_keys"}


def address(page: str, **query: str) -> str:
    """The address of a page by its name in `_PAGES`."""
    link = reverse(_PAGES[page])
    return f"{link}?{urlencode(query)}" if query else link


def endpoint(account_id: str, name: str) -> str:
    """The address of an endpoint's page; empty for a name that none can have."""
    try:
        return reverse("admin:endpoint", args=(account_id, name))
    except NoReverseMatch:
        return ""


def place_of(thing: Any) -> str:
    """Where a problem, a cell, a comb, a backlog or an event leads to; empty where that is nowhere in particular."""
    kind = getattr(thing, "subject_kind", "")
    if kind:
        return _place_of_event(kind, thing)
    page = getattr(thing, "page", "endpoint")
    if page == "endpoint":
        name = getattr(thing, "endpoint", "") or getattr(thing, "name", "")
        return endpoint(thing.account_id, name) if thing.account_id and name else ""
    if page == "requests":
        return address("requests", account=thing.account_id, endpoint=thing.name, state="failed")
    return "" if page == "fleet" else address(page)


def _place_of_event(kind: str, event: Any) -> str:
    if kind == "endpoint":
        return endpoint(event.account_id, event.subject_name)
    page = _SUBJECTS.get(kind)
    return address(page) if page else ""
