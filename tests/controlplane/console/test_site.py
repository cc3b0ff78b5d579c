"""Who gets into the console, what they see there, and what no page of it gives away."""

import re
from dataclasses import replace

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from controlplane.auth.models import Account
from controlplane.auth.roles import Role
from controlplane.config.environment import Environment, SettingError
from controlplane.core.ids import new_uuid
from controlplane.observability.models import Event
from tests.controlplane.console.people import logged_in, someone, text_of
from tests.workers.plane import Plane

pytestmark = pytest.mark.django_db

FOR_ALL = ("index", "capacity", "events", "orphans", "endpoints", "requests")
FOR_ADMINISTRATORS = ("access_keys", "tokens", "console_operator_changelist", "console_operator_add")


@pytest.mark.parametrize("name", FOR_ALL + FOR_ADMINISTRATORS)
def test_nobody_sees_a_page_without_logging_in(name: str) -> None:
    path = reverse(f"admin:{name}")
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/admin/login/?next={path}"


def test_who_has_no_role_does_not_get_in() -> None:
    someone_else = User.objects.create_user("stranger", is_staff=True)
    client = Client()
    client.force_login(someone_else)
    assert client.get("/admin/").status_code == 302
    assert client.get("/admin/front/now/").status_code == 302


def test_a_part_of_a_page_does_not_turn_into_the_login_page(account: Account) -> None:
    client = logged_in(Role.VIEWER)
    asked = {"HX-Request": "true"}
    assert client.get("/admin/front/now/", headers=asked).status_code == 200
    client.logout()
    answer = client.get("/admin/front/now/", headers=asked)
    assert (answer.status_code, answer.content) == (401, b"")


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.group)
def test_every_role_sees_the_fleet_and_only_administrators_what_is_theirs(role: Role, account: Account) -> None:
    client = logged_in(role)
    assert {name: client.get(reverse(f"admin:{name}")).status_code for name in FOR_ALL} == dict.fromkeys(FOR_ALL, 200)
    wanted = 200 if role is Role.ADMINISTRATOR else 403
    seen = {name: client.get(reverse(f"admin:{name}")).status_code for name in FOR_ADMINISTRATORS}
    assert seen == dict.fromkeys(FOR_ADMINISTRATORS, wanted)
    menu = client.get("/admin/capacity/").content.decode()
    assert (reverse("admin:access_keys") in menu) == (role is Role.ADMINISTRATOR)


POSTS = {
    Role.OPERATOR: ("capacity_clear", "orphans_end", "orphans_adopt"),
    Role.ADMINISTRATOR: (
        "capacity_set",
        "orphans_confirm",
        "access_keys_create",
        "access_keys_switch",
        "access_keys_delete",
        "tokens_create",
        "tokens_revoke",
    ),
}
GIVEN = {
    "capacity_clear": [1],
    "orphans_end": [1],
    "orphans_adopt": [1],
    "access_keys_switch": ["K"],
    "access_keys_delete": ["K"],
}
DEEDS = [(role, name) for role, names in POSTS.items() for name in names]


def _deed(name: str) -> str:
    return reverse(f"admin:{name}", args=[new_uuid()] if name == "tokens_revoke" else GIVEN.get(name, []))


@pytest.mark.parametrize(("needed", "name"), DEEDS, ids=[name for _, name in DEEDS])
def test_a_lower_role_may_not_do_it_and_looking_does_nothing(needed: Role, name: str, account: Account) -> None:
    path = _deed(name)
    lower = logged_in(Role(needed - 1))
    assert lower.post(path).status_code == 403
    assert lower.get(path).status_code in (403, 405)
    assert not Event.objects.exists()


@pytest.mark.parametrize(("needed", "name"), DEEDS, ids=[name for _, name in DEEDS])
def test_nothing_is_done_without_a_csrf_token(needed: Role, name: str, account: Account) -> None:
    assert logged_in(needed, enforces_csrf=True).post(_deed(name)).status_code == 403
    assert not Event.objects.exists()


def test_the_password_opens_the_console_and_leads_back_to_where_one_was_going(account: Account) -> None:
    user = someone(Role.VIEWER, "ada")
    user.set_password("a-good-passphrase")
    user.save()
    client = Client()
    answer = client.post("/admin/login/?next=/admin/capacity/", {"username": "ada", "password": "a-good-passphrase"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/capacity/")
    assert client.get("/admin/capacity/").status_code == 200


@pytest.mark.parametrize(
    ("name", "password", "sentence"),
    [
        ("ada", "wrong", "No operator has this name and this password."),
        ("nobody", "wrong", "No operator has this name and this password."),
        ("idle", "a-good-passphrase", "This operator has no role"),
        ("gone", "a-good-passphrase", "No operator has this name and this password."),
    ],
    ids=["password", "name", "no-role", "switched-off"],
)
def test_the_login_page_says_what_is_wrong(account: Account, name: str, password: str, sentence: str) -> None:
    someone(Role.VIEWER, "ada")
    User.objects.create_user("idle", password="a-good-passphrase")
    User.objects.create_user("gone", password="a-good-passphrase", is_active=False)
    answer = Client().post("/admin/login/", {"username": name, "password": password})
    assert answer.status_code == 200
    assert sentence in text_of(answer)


class TestBehindAProxy:
    """BL-134: the proxy ends TLS; browsers send the origin that they see."""

    ORIGIN = "https://cp.example.test:8443"

    def _log_in(self, origin: str, **headers: str) -> int:
        user = someone(Role.VIEWER, "ada")
        user.set_password("a-good-passphrase")
        user.save()
        client = Client(enforce_csrf_checks=True, headers={"Host": "cp.example.test:8443"})
        page = client.get("/admin/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.content.decode())
        assert token
        form = {"username": "ada", "password": "a-good-passphrase", "csrfmiddlewaretoken": token[1]}
        return client.post("/admin/login/?next=/admin/", form, headers={"Origin": origin, **headers}).status_code

    def test_the_named_origin_may_log_in(self, account: Account) -> None:
        with override_settings(CSRF_TRUSTED_ORIGINS=[self.ORIGIN]):
            assert self._log_in(self.ORIGIN) == 302

    def test_another_origin_may_not_whatever_it_says_of_the_scheme(self, account: Account) -> None:
        with override_settings(CSRF_TRUSTED_ORIGINS=[self.ORIGIN]):
            assert self._log_in("https://evil.example", **{"X-Forwarded-Proto": "https"}) == 403

    def test_a_header_that_anybody_can_send_changes_nothing(self, account: Account) -> None:
        assert self._log_in(self.ORIGIN, **{"X-Forwarded-Proto": "https"}) == 403

    @pytest.mark.parametrize("value", ["cp.example.test", "https://cp.example.test/admin", "ftp://x"])
    def test_the_setting_is_an_origin(self, value: str) -> None:
        with pytest.raises(SettingError, match="HEADRACE_PUBLIC_URL"):
            Environment.read({"HEADRACE_PUBLIC_URL": value, "HEADRACE_DATABASE_URL": "x"})
        origin = Environment.read({"HEADRACE_PUBLIC_URL": self.ORIGIN + "/", "HEADRACE_DATABASE_URL": "x"}).public_url
        assert origin == self.ORIGIN


def test_nothing_of_the_console_is_deleted_by_its_lists(plane: Plane) -> None:
    """BL-131: there is no "delete selected" that would take rows away from under their instances."""
    plane.create("e", types=("ml.m5.large",))
    plane.settle()
    client = logged_in(Role.ADMINISTRATOR)
    for path in ("endpoints/endpoint/", "fleet/instance/", "catalog/model/"):
        assert 'value="delete_selected"' not in client.get(f"/admin/{path}").content.decode()
        form = {"action": "delete_selected", "_selected_action": ["1"], "post": "yes"}
        client.post(f"/admin/{path}", form)
    assert plane.exists()
    assert plane.rows() == 1


def test_the_label_says_which_installation_this_is(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, region="eu-west-7"))
    assert "eu-west-7" in text_of(logged_in(Role.VIEWER).get("/admin/"))


@pytest.mark.parametrize("path", ["search/?extended=1&s=%00", "access-keys/%00/delete/", "front/%00/", "tokens/x/revoke/"])
def test_nonsense_in_an_address_is_no_fault_of_the_server(account: Account, path: str) -> None:
    client = logged_in(Role.ADMINISTRATOR)
    assert client.get(f"/admin/{path}").status_code in (200, 404, 405)
    assert client.post(f"/admin/{path}").status_code in (200, 302, 404)


def test_jumping_by_name_finds_endpoints(plane: Plane) -> None:
    plane.create("search-ranker", types=("ml.m5.large",))
    found = logged_in(Role.VIEWER).get("/admin/search/?extended=1&s=search-r").content.decode()
    assert f"/admin/endpoints/{settings.HEADRACE.account_id}/search-ranker/" in found


@pytest.mark.parametrize(
    ("path", "encoding"),
    [("console/console.css", "gzip"), ("unfold/js/htmx/htmx.js", "gzip"), ("console/no-such.css", None)],
)
def test_files_are_served_compressed_and_kept_for_a_while(path: str, encoding: str | None) -> None:
    answer = Client(headers={"Accept-Encoding": "gzip"}).get(f"/static/{path}")
    assert answer.status_code == (200 if encoding else 404)
    assert answer.headers.get("Content-Encoding") == encoding
    assert ("max-age=300" in answer.headers.get("Cache-Control", "")) == bool(encoding)


def test_pages_and_styles_name_no_other_host(account: Account) -> None:
    client = logged_in(Role.ADMINISTRATOR)
    page = client.get("/admin/").content.decode()
    links = re.findall(r'(?:href|src|action)="([^"]+)"', page)
    assert links
    assert not [link for link in links if link.startswith(("http:", "https:", "//"))]
    for sheet in re.findall(r'href="(/static/[^"]+\.css)"', page):
        style = b"".join(client.get(sheet).streaming_content).decode()
        assert not re.findall(r"url\([\"']?(?:https?:)?//", style), sheet
