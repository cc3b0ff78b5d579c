"""The pages of asynchronous requests: search, one request, dead letters, and their actions."""

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from controlplane.console import actions, requests_page
from controlplane.console.live import BUSY_SECONDS, IDLE_SECONDS, Live
from controlplane.console.requests_actions import ACTIONS, RedriveClass
from controlplane.core.errors import ApiError
from controlplane.invocations.models import AsyncInvocation


def index(request: HttpRequest) -> HttpResponse:
    """The search and what it found."""
    form = requests_page.SearchForm(request.GET)
    which = form.which()
    error, found = "", None
    try:
        found = requests_page.search(which, request.GET.get("page", ""))
    except ApiError as refused:
        error = refused.message
    kept = {name: value for name, value in request.GET.items() if value and name != "page"}
    context = {
        **admin.site.each_context(request),
        "title": "Async requests",
        "form": form,
        "which": which,
        "page": found,
        "error": error,
        "rows": [_line(row) for row in found.rows] if found else [],
        "query": urlencode(kept),
        "is_filtered": bool(set(kept) - {"account"}),
        "is_later_page": "page" in request.GET,
    }
    return TemplateResponse(request, "console/request/list.html", context)


def page(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """One request."""
    row = _found(request_id)
    context = {
        **admin.site.each_context(request),
        "title": "Async request",
        "row": row,
        "story": _story(request, row).html(request),
    }
    return TemplateResponse(request, "console/request/page.html", context)


def part(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """One request's story for itself."""
    return _story(request, _found(request_id)).answer(request)


def dead(request: HttpRequest) -> HttpResponse:
    """Dead letters by class."""
    context = {
        **admin.site.each_context(request),
        "title": "Dead letters",
        "classes": _classes(request).html(request),
        "accounts": requests_page.accounts(),
        "account": _account(request),
        "endpoint": _endpoint(request),
    }
    return TemplateResponse(request, "console/request/dead.html", context)


def dead_part(request: HttpRequest) -> HttpResponse:
    """The classes for themselves."""
    return _classes(request).answer(request)


@actions.operator
def act(request: HttpRequest, request_id: UUID, action: str) -> HttpResponse:
    """An action on one request."""
    if action not in ACTIONS:
        raise Http404
    return actions.run(request, ACTIONS[action](request_id))


@actions.operator
def redrive_class(request: HttpRequest, account_id: str, name: str) -> HttpResponse:
    """Putting a class of an endpoint's dead letters back."""
    given = request.GET
    return actions.run(request, RedriveClass(account_id, name, given.get("state", ""), given.get("kind", "")))


def _found(request_id: UUID) -> AsyncInvocation:
    row = AsyncInvocation.objects.filter(pk=request_id).first()
    if row is None:
        raise Http404(f"There is no request {request_id}. Retention may have deleted it.")
    return row


def _line(row: AsyncInvocation) -> dict[str, object]:
    return {"row": row, "tone": requests_page.TONES[row.state], "kind": requests_page.KINDS.get(row.failure_kind, "")}


def _story(request: HttpRequest, row: AsyncInvocation) -> Live:
    found = requests_page.story(row)
    context = {"story": found, "row": row}
    url = reverse("admin:request_part", args=(row.pk,))
    return Live("story", url, "console/request/story.html", context, BUSY_SECONDS if found.is_open else IDLE_SECONDS)


def _account(request: HttpRequest) -> str:
    known = requests_page.accounts()
    asked = request.GET.get("account", "")
    return asked if asked in known else known[0]


def _endpoint(request: HttpRequest) -> str:
    return request.GET.get("endpoint", "").replace("\x00", "").strip()[:63]


def _classes(request: HttpRequest) -> Live:
    account, name = _account(request), _endpoint(request)
    found = requests_page.dead(account, name)
    context = {
        "endpoints": found,
        "account": account,
        "endpoint": name,
    }
    url = f"{reverse('admin:dead_letters_part')}?{urlencode({'account': account, 'endpoint': name})}"
    is_moving = any(each.redriving or (name and (each.queued or each.running)) for each in found)
    return Live("classes", url, "console/request/classes.html", context, BUSY_SECONDS if is_moving else IDLE_SECONDS)
