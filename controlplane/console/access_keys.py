"""Access keys, for administrators: made, switched off and on, deleted. A secret is shown once, to whoever made the key."""

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_POST

from controlplane.auth import access_keys as services
from controlplane.auth.models import AccessKey, Account
from controlplane.auth.roles import Role
from controlplane.console.access import needs
from controlplane.console.deeds import done, made
from controlplane.core import clock
from controlplane.core.errors import ResourceNotFound

LISTED = 500


class AccountForm(forms.Form):
    """Whose key it is to be."""

    account = forms.ModelChoiceField(Account.objects.order_by("account_id"), empty_label=None)


@needs(Role.ADMINISTRATOR)
def page(request: HttpRequest) -> HttpResponse:
    """The keys of all accounts."""
    return _show(request)


@require_POST
@needs(Role.ADMINISTRATOR)
def create(request: HttpRequest) -> HttpResponse:
    """Make one, and show its secret."""
    form = AccountForm(request.POST)
    return made(request, form, lambda given: services.create(given["account"].pk, clock.now()), _show)


@require_POST
@needs(Role.ADMINISTRATOR)
def switch(request: HttpRequest, access_key_id: str) -> HttpResponse:
    """Switch one on (`to=on`) or off."""
    is_active = request.POST.get("to") == "on"

    def deed() -> str:
        services.set_active(_account_of(access_key_id), access_key_id, is_active=is_active, now=clock.now())
        return f"Access key {access_key_id} is {'active again' if is_active else 'switched off'}."

    return done(request, deed, "admin:access_keys")


@require_POST
@needs(Role.ADMINISTRATOR)
def delete(request: HttpRequest, access_key_id: str) -> HttpResponse:
    """Delete one for good."""

    def deed() -> str:
        services.delete(_account_of(access_key_id), access_key_id, clock.now())
        return f"Access key {access_key_id} is deleted."

    return done(request, deed, "admin:access_keys")


def _show(request: HttpRequest, **more: object) -> HttpResponse:
    rows = AccessKey.objects.order_by("account_id", "-created_at", "access_key_id")[: LISTED + 1]
    keys = [(key, services.is_bootstrap(key)) for key in rows]
    context = {
        **admin.site.each_context(request),
        "title": "Access keys",
        "keys": keys[:LISTED],
        "has_more": len(keys) > LISTED,
        "form": AccountForm(),
        **more,
    }
    return TemplateResponse(request, "console/access_keys.html", context)


def _account_of(access_key_id: str) -> str:
    """The account of a key, by which the services know it."""
    known = AccessKey.objects.filter(pk=access_key_id.replace("\x00", ""))
    account_id: str | None = known.values_list("account_id", flat=True).first()
    if account_id is None:
        raise ResourceNotFound(f"There is no access key {access_key_id[:128]} any more.")
    return account_id
