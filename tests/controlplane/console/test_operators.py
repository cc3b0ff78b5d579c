"""Administrators manage who may come in, and never lock themselves out."""

from dataclasses import replace

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import override_settings

from controlplane.auth.models import Account
from controlplane.auth.roles import Role, role_of
from controlplane.observability.models import Event
from tests.controlplane.console.people import logged_in, someone, text_of

pytestmark = pytest.mark.django_db


def test_a_new_operator_has_the_role_that_was_chosen(account: Account) -> None:
    client = logged_in(Role.ADMINISTRATOR)
    form = {"username": "bob", "role": "operator", "password1": "a-good-passphrase", "password2": "a-good-passphrase"}
    assert client.post("/admin/console/operator/add/", form).status_code == 302
    assert role_of(User.objects.get(username="bob")) is Role.OPERATOR
    told = Event.objects.get(reason="OperatorCreated")
    assert (told.actor, told.subject_name) == ("operator administrator", "bob")


def test_a_role_is_changed_and_taken_away_by_switching_off(account: Account) -> None:
    client, bob = logged_in(Role.ADMINISTRATOR), someone(Role.OPERATOR, "bob")
    path = f"/admin/console/operator/{bob.pk}/change/"
    assert client.post(path, {"username": "bob", "role": "viewer", "is_active": "on"}).status_code == 302
    assert role_of(User.objects.get(pk=bob.pk)) is Role.VIEWER
    assert client.post(path, {"username": "bob", "role": "viewer"}).status_code == 302
    assert role_of(User.objects.get(pk=bob.pk)) is None


def test_administrators_keep_their_own_role(account: Account) -> None:
    client = logged_in(Role.ADMINISTRATOR)
    me = User.objects.get()
    answer = client.post(
        f"/admin/console/operator/{me.pk}/change/", {"username": "administrator", "role": "viewer"}, follow=True
    )
    assert "Your own role stays as it is" in text_of(answer)
    assert role_of(User.objects.get()) is Role.ADMINISTRATOR
    assert client.post(f"/admin/console/operator/{me.pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_bootstrap_administrator_can_be_given_a_lower_role(account: Account) -> None:
    client = logged_in(Role.ADMINISTRATOR)
    root = User.objects.create_superuser("root")
    client.post(f"/admin/console/operator/{root.pk}/change/", {"username": "root", "role": "viewer", "is_active": "on"})
    assert role_of(User.objects.get(pk=root.pk)) is Role.VIEWER


def test_permissions_of_django_groups_are_no_second_door(account: Account) -> None:
    assert logged_in(Role.ADMINISTRATOR).get("/admin/auth/group/").status_code == 404
    assert Group.objects.filter(name="administrator").exists()


def test_a_password_that_is_set_is_told_with_whoever_set_it(account: Account) -> None:
    client, bob = logged_in(Role.ADMINISTRATOR), someone(Role.OPERATOR, "bob")
    path = f"/admin/console/operator/{bob.pk}/password/"
    assert client.post(path, {"password1": "short", "password2": "other"}).status_code == 200
    assert not Event.objects.exists()
    given = {"password1": "a-good-passphrase", "password2": "a-good-passphrase", "usable_password": "true"}
    assert client.post(path, given).status_code == 302
    told = Event.objects.get()
    assert (told.actor, told.reason, told.subject_name) == ("operator administrator", "OperatorPasswordSet", "bob")
    assert User.objects.get(pk=bob.pk).check_password("a-good-passphrase")


def test_one_s_own_password_needs_the_old_one_and_is_told(account: Account) -> None:
    client = logged_in(Role.VIEWER, "alice")
    alice = User.objects.get(username="alice")
    alice.set_password("an-old-passphrase")
    alice.save()
    client.force_login(alice)
    new = {"new_password1": "a-good-passphrase", "new_password2": "a-good-passphrase"}
    assert client.post("/admin/password_change/", {**new, "old_password": "wrong"}).status_code == 200
    assert not Event.objects.exists()
    assert client.post("/admin/password_change/", {**new, "old_password": "an-old-passphrase"}).status_code == 302
    told = Event.objects.get()
    assert (told.actor, told.reason, told.subject_name) == ("operator alice", "OperatorPasswordSet", "alice")


def test_whoever_changes_a_password_that_the_settings_hold_is_told_that_it_comes_back(account: Account) -> None:
    client, root = logged_in(Role.ADMINISTRATOR), User.objects.create_superuser("admin")
    given = {"password1": "a-good-passphrase", "password2": "a-good-passphrase", "usable_password": "true"}
    with override_settings(HEADRACE=replace(settings.HEADRACE, admin_password="of-the-settings")):
        answer = client.post(f"/admin/console/operator/{root.pk}/password/", given, follow=True)
    assert "HEADRACE_ADMIN_PASSWORD" in text_of(answer)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR], ids=lambda role: role.group)
def test_nobody_but_administrators_touches_an_operator(role: Role, account: Account) -> None:
    client, root = logged_in(role), User.objects.create_superuser("root")
    for path in ("", "add/", f"{root.pk}/change/", f"{root.pk}/delete/", f"{root.pk}/password/", f"{root.pk}/history/"):
        for method in ("get", "post"):
            answer = getattr(client, method)(f"/admin/console/operator/{path}", {"username": "x", "role": "viewer"})
            assert answer.status_code == 403, (method, path)
