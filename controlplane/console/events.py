"""The events page: everything that happened, the latest first, live; by reason, by subject and by actor."""

from urllib.parse import urlencode

from django.contrib import admin
from django.db import connection
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse

from controlplane.console.event_selectors import REASONS_SEEN, Page, Search, find
from controlplane.console.live import BUSY_SECONDS, Live

FILTERS = ("reason", "subject", "actor", "account")
LONGEST = 160
"""Characters of a filter; no stored value is longer."""


def page(request: HttpRequest) -> HttpResponse:
    """A page of events with its filters."""
    search = _search(request.GET)
    context = {
        **admin.site.each_context(request),
        "title": "Events",
        "search": search,
        "reasons": _reasons(),
        "list": _list(search).html(request),
    }
    return TemplateResponse(request, "console/events.html", context)


def part(request: HttpRequest) -> HttpResponse:
    """The list alone."""
    return _list(_search(request.GET)).answer(request)


def _list(search: Search) -> Live:
    found = find(search)
    url = f"{reverse('admin:events_part')}?{_query(search)}"
    context = {"events": found.events, "search": search, **_pages(search, found)}
    if not search.is_first_page:
        # What happened before something else never changes.
        return Live("events-list", url, "console/event_list.html", context, 3600)
    return Live("events-list", url, "console/event_list.html", context, BUSY_SECONDS)


def _pages(search: Search, found: Page) -> dict[str, str]:
    own = _query(search, has_place=False)
    later = f"?{own}&after={found.events[0].id}" if found.has_later and found.events else ""
    earlier = f"?{own}&before={found.events[-1].id}" if found.has_earlier and found.events else ""
    return {"later": later, "earlier": earlier, "first": f"?{own}"}


def _query(search: Search, has_place: bool = True) -> str:
    given = {"reason": search.reason, "subject": search.subject, "actor": search.actor, "account": search.account_id}
    if has_place:
        given |= {"before": search.before or "", "after": search.after or ""}
    return urlencode({name: value for name, value in given.items() if value})


def _search(given: QueryDict) -> Search:
    reason, subject, actor, account = ((given.get(name) or "").replace("\x00", "").strip()[:LONGEST] for name in FILTERS)
    return Search(reason, subject, actor, account, _id(given.get("before")), _id(given.get("after")))


def _id(text: str | None) -> int | None:
    """An event's id; whatever is none is taken for no limit."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def _reasons() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(REASONS_SEEN)
        return [reason for (reason,) in cursor.fetchall()]
