"""Which role a request of the console has, looked up once, and the decorator that asks for one."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from controlplane.auth.roles import Role, role_of

View = Callable[..., HttpResponse]


def role_in(request: HttpRequest) -> Role | None:
    """The role of whoever is logged in; None for who may not even look."""
    if not hasattr(request, "console_role"):
        request.console_role = role_of(request.user)  # type: ignore[attr-defined]
    role: Role | None = request.console_role  # type: ignore[attr-defined]
    return role


def may(request: HttpRequest, role: Role) -> bool:
    """Whether the request's role is this one or a higher."""
    held = role_in(request)
    return held is not None and held >= role


def actor_of(request: HttpRequest) -> str:
    """How events name whoever is logged in."""
    return f"operator {request.user.get_username()}"


def needs(role: Role) -> Callable[[View], View]:
    """The decorated view answers 403 to lower roles; that somebody is logged in, the site has seen to."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not may(request, role):
                raise PermissionDenied(f"This needs the role {role.group}.")
            return view(request, *args, **kwargs)

        return guarded

    return decorate
