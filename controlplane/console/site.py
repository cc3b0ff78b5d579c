"""The console's site: Django's admin in unfold's clothes, with roles for permissions, and pages of its own.

Every page passes through `admin_view`: whoever has no role is sent to the login page, whatever is done inside is recorded
as the act of the operator who is logged in, and POST needs a CSRF token.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver
from django.utils.module_loading import import_string
from unfold.sites import UnfoldAdminSite

from controlplane.auth.roles import Role
from controlplane.console.access import actor_of, may, role_in
from controlplane.core.actor import acting


class ConsoleSite(UnfoldAdminSite):
    """See the module docstring."""

    index_title = "Fleet"

    def has_permission(self, request: HttpRequest) -> bool:
        """Any role may come in; what it may do there, each page asks again."""
        return role_in(request) is not None

    def admin_view(self, view: Callable[..., HttpResponse], cacheable: bool = False) -> Callable[..., HttpResponse]:
        @wraps(view)
        def acted(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            with acting(actor_of(request)):
                return view(request, *args, **kwargs)

        guarded: Callable[..., HttpResponse] = super().admin_view(acted, cacheable)

        @wraps(guarded)
        def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.headers.get("HX-Request") and not self.has_permission(request):
                # A part that refreshes itself would show the login page that a redirect leads to.
                return HttpResponse(status=401)
            return guarded(request, *args, **kwargs)

        return answered

    def extra_urls(self) -> list[URLPattern | URLResolver]:
        """The console's own pages, found late: they import the site's models."""
        pages: list[URLPattern | URLResolver] = import_string("controlplane.console.urls.pages")(self)
        return pages

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The front page."""
        del extra_context
        front: Callable[[HttpRequest], HttpResponse] = import_string("controlplane.console.front.page")
        return front(request)

    def app_index(self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Where the first step of a record's path leads: by package there is nothing to see, so to the front page."""
        del request, app_label, extra_context
        return redirect("admin:index")

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """One's own password; told as when an administrator sets it."""
        tell: Callable[[HttpRequest, Any], None] = import_string("controlplane.console.operators.tell_password")
        with transaction.atomic():
            answer = super().password_change(request, extra_context)
            if request.method == "POST" and answer.status_code == 302:
                tell(request, request.user)
        return answer

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """What every page's template may ask for; `can_operate` and `can_administer` say which buttons to show."""
        context: dict[str, Any] = super().each_context(request)
        role = role_in(request)
        context.update(
            role=role.group if role else "",
            can_operate=may(request, Role.OPERATOR),
            can_administer=may(request, Role.ADMINISTRATOR),
        )
        return context
