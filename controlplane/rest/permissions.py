"""Who may do what on the resource paths.

reads            viewer          GET and HEAD, and views that say `is_read` of a POST that changes nothing
changes          operator
administration   administrator   changes of views with `is_administration`
what all share   administrator   of the installation's own account: changes of views with `is_shared_by_accounts`
"""

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.auth.roles import Role
from controlplane.core.errors import AccessDeniedException, MissingAuthenticationToken
from controlplane.rest.caller import Caller


class MayAsk(BasePermission):
    """Every path needs a caller whose role is high enough, but for those that say otherwise."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """True; raises MissingAuthenticationToken or AccessDeniedException, which names the role that it takes."""
        caller = request.user
        if not isinstance(caller, Caller):
            raise MissingAuthenticationToken("Missing Authentication Token")
        needed = role_needed(request.method or "", view)
        if caller.role < needed:
            raise AccessDeniedException(
                f"{caller.actor} has the role {caller.role.group}; this takes the role {needed.group}."
            )
        is_change = needed > Role.VIEWER
        if is_change and getattr(view, "is_shared_by_accounts", False) and not caller.is_installation:
            raise AccessDeniedException(
                "All accounts share this: it takes an administrator of the installation's own account."
            )
        return True


def role_needed(method: str, view: Any) -> Role:
    """The lowest role that may send this method to this view."""
    if method in SAFE_METHODS or getattr(view, "is_read", False):
        return Role.VIEWER
    is_administration = getattr(view, "is_administration", False) or getattr(view, "is_shared_by_accounts", False)
    return Role.ADMINISTRATOR if is_administration else Role.OPERATOR
