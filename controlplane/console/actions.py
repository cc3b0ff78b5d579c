"""How every change from the console is asked for and made: once, on a page that says what will happen.

    GET   the question: a form where something is to be chosen, what will happen, and the facts it was rendered from
    POST  the same facts, compared under lock with those of now --- others ---> 409, the question again with what changed
                     |
                  the same --- the API's own service ---> 303 to where the change can be watched
                     |
                  refused by it ---> 400 (404: gone), the question again with the reason

No action writes a row itself. Who acts is known to the events (the site runs every view as `operator NAME`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse

from controlplane.auth.roles import Role
from controlplane.console import actions_seen as seen
from controlplane.console.access import needs
from controlplane.core.errors import ApiError, ResourceNotFound

REFUSED, GONE, CHANGED = 400, 404, 409

OTHERWISE_RENDERED = "What this form was rendered from could not be read. Look at the present state and decide again."


class Action:
    """One change. Subclasses say what it is called, what it is decided on, what will happen, and do it."""

    title = ""
    button = ""
    heading = "What will happen"
    """Over the consequences."""

    is_dangerous = False
    back = ""
    """Where the change can be watched, and where whoever thinks better of it goes."""

    def facts(self, *, is_locked: bool) -> seen.Facts:
        """What the action is decided on, as it is now; with the row locked until the transaction ends. Raises ApiError
        when what it is about is gone."""
        raise NotImplementedError

    def consequences(self) -> Sequence[str]:
        """What will happen, a sentence each."""
        return ()

    def form(self, data: Any = None) -> forms.Form:
        """What is to be chosen, if anything."""
        return forms.Form(data)

    def do(self, chosen: dict[str, Any]) -> "str | Action":
        """Make the change through its service; returns the sentence for whoever asked. Where more is to be asked first,
        nothing is done and the next question is returned. Raises ApiError."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Told:
    """What a page of the question says beside it."""

    changes: tuple[seen.Change, ...] = ()
    error: str = ""
    status: int = 200


class _Changed(Exception):
    """The facts are others by now."""

    def __init__(self, changes: tuple[seen.Change, ...]) -> None:
        super().__init__()
        self.changes = changes


def operator(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For views of actions: operators and administrators only."""
    return needs(Role.OPERATOR)(view)


def run(request: HttpRequest, action: Action) -> HttpResponse:
    """Ask, or do what was asked for."""
    if request.method == "GET":
        return _ask(request, action, action.form(), _Told())
    if request.method != "POST":
        return HttpResponseNotAllowed(["GET", "POST"])
    form = action.form(request.POST)
    try:
        with transaction.atomic():
            _compare(request.POST.get("seen", ""), action.facts(is_locked=True))
            if not form.is_valid():
                return _ask(request, action, form, _Told(status=REFUSED))
            outcome = action.do(form.cleaned_data)
    except _Changed as found:
        error = "" if found.changes else OTHERWISE_RENDERED
        return _ask(request, action, action.form(), _Told(found.changes, error, CHANGED))
    except ApiError as error:
        status = GONE if isinstance(error, ResourceNotFound) else REFUSED
        return _ask(request, action, form, _Told(error=error.message, status=status))
    if isinstance(outcome, Action):
        return _ask(request, outcome, outcome.form(), _Told())
    messages.success(request, outcome)
    return HttpResponseRedirect(action.back, status=303)


def _compare(token: str, now: seen.Facts) -> None:
    before = seen.read(token)
    if before is None:
        raise _Changed(())
    changes = seen.changes(before, now)
    if changes:
        raise _Changed(changes)


def _ask(request: HttpRequest, action: Action, form: forms.Form, told: _Told) -> HttpResponse:
    try:
        facts, consequences = action.facts(is_locked=False), action.consequences()
    except ApiError as error:
        facts, consequences, told = None, (), _Told(error=error.message, status=GONE)
    context = {
        **admin.site.each_context(request),
        "title": action.title,
        "action": action,
        "form": form,
        "consequences": consequences,
        "seen": None if facts is None else seen.token(facts),
        "changes": told.changes,
        "error": told.error,
    }
    return TemplateResponse(request, "console/action/page.html", context, status=told.status)
