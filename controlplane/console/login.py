"""The login form: who has no role is told so there, and not by being sent back to it."""

from typing import Any

from django.core.exceptions import ValidationError
from unfold.forms import AuthenticationForm

from controlplane.auth.roles import role_of


class LoginForm(AuthenticationForm):
    """A name and a password."""

    error_messages = {
        "invalid_login": "No operator has this name and this password. Capitals and small letters are told apart.",
        "no_role": "This operator has no role: an administrator has to give them one.",
    }

    def confirm_login_allowed(self, user: Any) -> None:
        """Any role may log in."""
        if role_of(user) is None:
            raise ValidationError(self.error_messages["no_role"], code="no_role")
