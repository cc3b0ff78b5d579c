"""Those who ask the resource paths without signing: holders of tokens, and operators who are logged in."""

import json
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client

from controlplane.auth import tokens
from controlplane.auth.models import Account
from controlplane.auth.roles import Role
from controlplane.core import clock
from tests.controlplane.rest.conftest import Answer, Ask, told

CSRF = "c" * 32


def token_of(role: Role, account: str = "", **options: Any) -> str:
    """The secret of a new token."""
    account = account or settings.HEADRACE.account_id
    Account.objects.get_or_create(account_id=account, defaults={"created_at": clock.now()})
    _, secret = tokens.create(account, role.group, role, now=clock.now(), **options)
    return secret


def holding(secret: str, scheme: str = "Bearer") -> Ask:
    """Ask with this token."""
    client = Client(headers={"Authorization": f"{scheme} {secret}"})

    def send(method: str, path: str, body: object = None, **headers: Any) -> Answer:
        content = b"" if body is None else json.dumps(body).encode()
        kind = "application/json" if content else ""
        return told(method, path, client.generic(method, path, content, content_type=kind, headers=headers))

    return send


def user_of(role: Role | None, name: str = "alice") -> Any:
    """An operator with this role."""
    user = get_user_model().objects.create_user(name, is_staff=True)
    if role is not None:
        user.groups.add(Group.objects.get_or_create(name=role.group)[0])
    return user


def browser_of(user: Any) -> Client:
    """A browser in which this operator is logged in, and which has the console's CSRF cookie."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    client.cookies["csrftoken"] = CSRF
    return client


def logged_in(user: Any) -> Ask:
    """Ask as a script of the console's pages does: with the session and the CSRF token."""
    client = browser_of(user)

    def send(method: str, path: str, body: object = None, **headers: Any) -> Answer:
        content = b"" if body is None else json.dumps(body).encode()
        sent = {"X-CSRFToken": CSRF, **headers}
        kind = "application/json" if content else ""
        return told(method, path, client.generic(method, path, content, content_type=kind, headers=sent))

    return send
