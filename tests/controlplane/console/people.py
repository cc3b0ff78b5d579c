"""Whoever is logged in to the console in the tests, and what they do on its pages."""

import re
from html import unescape
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client

from controlplane.auth.roles import Role

_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


def someone(role: Role, name: str = "") -> User:
    """A user of this role, named after it unless told otherwise."""
    user = User.objects.create_user(name or role.group, is_staff=True)
    user.groups.add(Group.objects.get_or_create(name=role.group)[0])
    return user


def logged_in(role: Role, name: str = "", *, enforces_csrf: bool = False) -> Client:
    """A browser in which somebody of this role is logged in."""
    client = Client(enforce_csrf_checks=enforces_csrf)
    client.force_login(someone(role, name))
    return client


def endpoint_path(name: str = "e", rest: str = "") -> str:
    """The page of an endpoint, or one below it."""
    return f"/admin/endpoints/{settings.HEADRACE.account_id}/{name}/{rest}"


def hidden_fields(page: HttpResponse) -> dict[str, str]:
    """What a page's form carries without showing it."""
    return {name: unescape(value) for name, value in _HIDDEN.findall(page.content.decode())}


def asked(client: Client, path: str) -> dict[str, str]:
    """Open the page of an action; what its form carries."""
    page = client.get(path)
    assert page.status_code == 200, page.content[:500]
    return hidden_fields(page)


def done(client: Client, path: str, **chosen: Any) -> HttpResponse:
    """Open the page of an action, choose, and send its form."""
    return client.post(path, {**asked(client, path), **chosen})


def text_of(page: HttpResponse) -> str:
    """What a page says: its words without tags, each run of blanks as one."""
    words = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page.content.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(words))
