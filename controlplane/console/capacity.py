"""The capacity board, and what may be done there: forgetting a mark, rehearsing a shortage."""

from datetime import datetime

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from controlplane.auth.roles import Role
from controlplane.catalog.instance_types import known_instance_types
from controlplane.console.access import needs
from controlplane.console.capacity_board import MANY, board
from controlplane.console.capacity_selectors import known
from controlplane.console.deeds import done
from controlplane.console.live import BUSY_SECONDS, Live
from controlplane.core import clock
from controlplane.fleet import marks
from controlplane.observability import rehearsals


class CapacityForm(forms.Form):
    """How many instances of a type may live at once."""

    instance_type = forms.CharField(max_length=64)
    slots = forms.IntegerField(min_value=0, max_value=rehearsals.MOST_SLOTS)

    def clean_instance_type(self) -> str:
        """Only what could be wanted at all."""
        name: str = self.cleaned_data["instance_type"].strip()
        if name not in known_instance_types():
            raise forms.ValidationError(f"{name} is no instance type.")
        return name


def page(request: HttpRequest) -> HttpResponse:
    """The whole board."""
    now = clock.now()
    context = {
        **admin.site.each_context(request),
        "title": "Capacity",
        "board": _board(now).html(request),
        "is_rehearsing": settings.HEADRACE.provider in rehearsals.REHEARSING,
        "provider": settings.HEADRACE.provider,
    }
    return TemplateResponse(request, "console/capacity.html", context)


def part(request: HttpRequest) -> HttpResponse:
    """The board alone."""
    return _board(clock.now()).answer(request)


def _board(now: datetime) -> Live:
    return Live("capacity-board", reverse("admin:capacity_part"), "console/capacity_board.html", _shown(now), BUSY_SECONDS)


def _shown(now: datetime) -> dict[str, object]:
    return {"board": board(known(), now), "many": MANY}


@require_POST
@needs(Role.OPERATOR)
def clear_mark(request: HttpRequest, mark_id: int) -> HttpResponse:
    """Forget a refusal, so that the next search asks the offering again."""

    def deed() -> str:
        marks.forget(settings.HEADRACE.account_id, mark_id, clock.now())
        return "The mark is cleared: the next search for capacity asks there again."

    return done(request, deed, "admin:capacity")


@require_POST
@needs(Role.ADMINISTRATOR)
def set_capacity(request: HttpRequest) -> HttpResponse:
    """Rehearse a shortage, or its end."""
    form = CapacityForm(request.POST)
    if not form.is_valid():
        told = [error for errors in form.errors.values() for error in errors]
        messages.error(request, " ".join(told))
        return redirect("admin:capacity")
    name, slots = form.cleaned_data["instance_type"], form.cleaned_data["slots"]

    def deed() -> str:
        env = settings.HEADRACE
        rehearsals.want(env.provider, name, slots, account_id=env.account_id, now=clock.now())
        return f"{name} is to have {slots} slots; the scheduler tells the provider in a moment."

    return done(request, deed, "admin:capacity")
