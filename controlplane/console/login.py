"""The login form: who has no role is told so there, and not by being sent back to it."""

from typing import Any

from django.core.exceptions import ValidationError
from unfold.forms import AuthenticationForm

from controlplane.auth.roles import role_of
from controlplane.console import guesses
from controlplane.core import clock


class LoginForm(AuthenticationForm):
    """A name and a password."""

    error_messages = {
        "invalid_login": "No operator has this name and this password. Capitals and small letters are told apart.",
        "no_role": "This operator has no role: an administrator has to give them one.",
        "too_many": f"Too many wrong passwords for this name. Try again in {guesses.WINDOW_SECONDS // 60} minutes.",
    }

    def clean(self) -> dict[str, Any]:
        """Beyond the limit of guesses the password is not looked at, right or wrong."""
        name, now = self.cleaned_data.get("username"), clock.now()
        if name and not guesses.may_guess(name, now):
            raise ValidationError(self.error_messages["too_many"], code="too_many")
        found: dict[str, Any] = super().clean()
        if name:
            guesses.forget(name, now)
        return found

    def confirm_login_allowed(self, user: Any) -> None:
        """Any role may log in."""
        if role_of(user) is None:
            raise ValidationError(self.error_messages["no_role"], code="no_role")
