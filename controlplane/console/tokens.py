"""API tokens, for administrators: made, listed, revoked. A secret is shown once, to whoever made the token."""

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_POST

from controlplane.auth import tokens as services
from controlplane.auth.models import Account, ApiToken
from controlplane.auth.roles import ROLES, Role
from controlplane.console.access import needs
from controlplane.console.deeds import done, made
from controlplane.console.operators import ROLE_CHOICES
from controlplane.core import clock
from controlplane.core.errors import ResourceNotFound

LISTED = 500


class TokenForm(forms.Form):
    """The token that is wanted."""

    name = forms.CharField(max_length=63, label="What it is for")
    role = forms.ChoiceField(choices=ROLE_CHOICES, label="What it may do")
    days = forms.IntegerField(min_value=1, max_value=services.MOST_DAYS, initial=services.DEFAULT_DAYS, label="Days")
    account = forms.ModelChoiceField(Account.objects.order_by("account_id"), empty_label=None, label="Account")


@needs(Role.ADMINISTRATOR)
def page(request: HttpRequest) -> HttpResponse:
    """The tokens of all accounts."""
    return _show(request)


@require_POST
@needs(Role.ADMINISTRATOR)
def create(request: HttpRequest) -> HttpResponse:
    """Make one, and show its secret."""
    return made(request, TokenForm(request.POST), _make, _show)


def _make(given: dict[str, Any]) -> tuple[ApiToken, str]:
    role = ROLES[given["role"]]
    return services.create(given["account"].pk, given["name"], role, now=clock.now(), days=given["days"])


@require_POST
@needs(Role.ADMINISTRATOR)
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """End one for good."""

    def deed() -> str:
        row = ApiToken.objects.filter(pk=token_id).first()
        if row is None:
            raise ResourceNotFound(f"There is no token {token_id} any more.")
        return f"Token {services.revoke(row.account_id, token_id, clock.now())} is revoked."

    return done(request, deed, "admin:tokens")


def _show(request: HttpRequest, **more: object) -> HttpResponse:
    now = clock.now()
    rows = list(ApiToken.objects.select_related("user")[: LISTED + 1])
    context = {
        **admin.site.each_context(request),
        "title": "API tokens",
        "tokens": [(row, Role(row.role).group, services.state(row, now)) for row in rows[:LISTED]],
        "has_more": len(rows) > LISTED,
        "form": TokenForm(initial={"role": Role.VIEWER.group, "account": settings.HEADRACE.account_id}),
        **more,
    }
    return TemplateResponse(request, "console/tokens.html", context)
