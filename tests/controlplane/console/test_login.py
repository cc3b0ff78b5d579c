"""Logging in: how often a password may be guessed, and what a session is worth afterwards."""

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings

from controlplane.auth.models import Account
from controlplane.auth.roles import Role
from controlplane.console.guesses import LIMIT, WINDOW_SECONDS
from controlplane.core.ids import new_uuid
from tests.controlplane.console.people import logged_in, someone, text_of
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.django_db

PASSWORD = "a-good-passphrase"


@pytest.fixture(autouse=True)
def fast_hash() -> object:
    """The real hash is slow on purpose."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def name(account: Account) -> str:
    """An operator whom no other test has guessed at: counts outlive a test's transaction."""
    user = someone(Role.VIEWER, f"alice-{new_uuid().hex}")
    user.set_password(PASSWORD)
    user.save()
    return str(user.username)


def has_entered(name: str, password: str) -> bool:
    return Client().post("/admin/login/", {"username": name, "password": password}).status_code == 302


def guess(name: str, times: int) -> None:
    for _ in range(times):
        assert not has_entered(name, "wrong")


def test_a_name_that_was_guessed_at_too_often_waits_even_with_the_right_password(name: str, fake_clock: FakeClock) -> None:
    guess(name, LIMIT)
    answer = Client().post("/admin/login/", {"username": name, "password": PASSWORD})
    assert (answer.status_code, "Too many wrong passwords" in text_of(answer)) == (200, True)
    fake_clock.step(WINDOW_SECONDS)
    assert has_entered(name, PASSWORD)


def test_nobody_else_is_locked_out(name: str) -> None:
    guess(name, LIMIT)
    other = someone(Role.VIEWER, f"bob-{new_uuid().hex}")
    other.set_password(PASSWORD)
    other.save()
    assert has_entered(other.username, PASSWORD)


def test_the_right_password_starts_the_count_again(name: str) -> None:
    for _ in range(3):
        guess(name, LIMIT - 1)
        assert has_entered(name, PASSWORD)


def test_operators_get_in_while_nothing_can_be_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1/0"}}
    with override_settings(CACHES=nowhere):
        guess(name, LIMIT)
        assert has_entered(name, PASSWORD)


def test_a_session_gets_a_new_id_at_login(name: str) -> None:
    client = Client()
    session = client.session
    session["planted"] = "by a stranger"
    session.save()
    planted = session.session_key
    client.cookies[settings.SESSION_COOKIE_NAME] = planted
    client.post("/admin/login/", {"username": name, "password": PASSWORD})
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != planted
    assert Client(headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={planted}"}).get("/admin/").status_code == 302


@pytest.mark.parametrize("end", ["deleted", "switched off", "no role", "another password"])
def test_a_session_ends_with_what_it_was_opened_for(account: Account, end: str) -> None:
    client = logged_in(Role.ADMINISTRATOR, "mallory")
    assert client.get("/admin/").status_code == 200
    user = User.objects.get(username="mallory")
    if end == "deleted":
        user.delete()
    elif end == "switched off":
        User.objects.update(is_active=False)
    elif end == "no role":
        user.groups.clear()
    else:
        user.set_password("another-one")
        user.save()
    assert client.get("/admin/").status_code == 302
    assert client.get("/api/v1/endpoints").status_code == 403


@pytest.mark.parametrize("elsewhere", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_logging_in_leads_to_no_other_host(name: str, elsewhere: str) -> None:
    given = {"username": name, "password": PASSWORD, "next": elsewhere}
    assert Client().post("/admin/login/", given).headers["Location"] == "/admin/"


def test_a_session_lasts_a_shift_however_long_a_page_is_looked_at(name: str) -> None:
    client = Client()
    client.post("/admin/login/", {"username": name, "password": PASSWORD})
    assert client.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == 12 * 60 * 60
    # A page that refreshes itself does not prolong it.
    assert settings.SESSION_COOKIE_NAME not in client.get("/admin/front/now/").cookies
