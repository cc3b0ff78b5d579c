"""`manage.py api_token NAME`: make, list and revoke the tokens of the resource paths."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from controlplane.auth import tokens
from controlplane.auth.models import Account
from controlplane.auth.roles import ROLES, Role
from controlplane.core import clock
from controlplane.core.actor import SHELL, acting
from controlplane.core.errors import ApiError


class Command(BaseCommand):
    """Prints the secret of a new token and nothing else, so that it can be put into a variable."""

    help = "Make a token for /api/v1/ (its secret is printed once); --list shows those there are, --revoke ends one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="what it is for, such as ci")
        parser.add_argument("--role", choices=ROLES, default=Role.VIEWER.group)
        parser.add_argument("--days", type=int, default=tokens.DEFAULT_DAYS, help=f"1 to {tokens.MOST_DAYS}")
        parser.add_argument("--user", help="the operator whom it belongs to; it ends with them")
        parser.add_argument("--account", default=settings.HEADRACE.account_id)
        parser.add_argument("--list", action="store_true")
        parser.add_argument("--revoke", metavar="ID", type=UUID)

    def handle(self, *args: Any, account: str, **options: Any) -> None:
        if not Account.objects.filter(pk=account).exists():
            raise CommandError(f"There is no account {account}.")
        try:
            with acting(SHELL):
                self._do(account, options)
        except ApiError as error:
            raise CommandError(error.message) from error

    def _do(self, account: str, options: dict[str, Any]) -> None:
        now = clock.now()
        if options["list"]:
            self._list(account, now)
        elif options["revoke"]:
            self.stdout.write(f"Revoked: {tokens.revoke(account, options['revoke'], now)}")
        elif options["name"]:
            role, user = ROLES[options["role"]], _user(options["user"])
            _, secret = tokens.create(account, options["name"], role, now=now, days=options["days"], user=user)
            self.stdout.write(secret)
        else:
            raise CommandError("Name the token, or ask with --list or --revoke.")

    def _list(self, account: str, now: datetime) -> None:
        for token in tokens.listed(account):
            state = tokens.state(token, now)
            state = f"until {token.expires_at:%Y-%m-%d}" if state == "active" else state
            self.stdout.write(f"{token.id}  {token.prefix}...  {Role(token.role).group:13}  {state:16}  {token.name}")


def _user(name: str | None) -> Any:
    if name is None:
        return None
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no operator {name!r}.")
    return user
