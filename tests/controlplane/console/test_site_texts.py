"""What comes from outside is shown as text, and what is secret is not shown."""

import re
from html import escape

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from controlplane.auth.models import AccessKey, Account
from controlplane.auth.roles import Role
from controlplane.core.ids import new_uuid
from controlplane.observability.events import Subject, record
from tests.controlplane.console.people import logged_in, text_of
from tests.workers.plane import Plane

pytestmark = pytest.mark.django_db

NASTY = '<img src=x onerror=alert(1)>"><svg onload=alert(2)>{{7*7}}'


class TestNastyTexts:
    """BL-130: names, reasons and what containers say are shown as text."""

    @pytest.fixture
    def client(self, plane: Plane) -> Client:
        plane.create("e", types=("ml.m5.large",))
        plane.settle()
        subject = Subject(settings.HEADRACE.account_id, "endpoint", new_uuid(), "e")
        record(subject, "Nasty", NASTY, now=plane.clock.now())
        for table, column in (
            ("endpoints_endpoint", "why"),
            ("endpoints_endpoint", "failure_reason"),
            ("fleet_instance", "reason"),
        ):
            _set_everywhere(table, column, NASTY)
        return logged_in(Role.ADMINISTRATOR)

    PATHS = (
        *("", "?by=type", "front/now/", "front/comb/", "front/latest/", "events/", "capacity/", "orphans/"),
        *("endpoints/endpoint/", "fleet/instance/", "fleet/launchattempt/", "observability/event/"),
        f"events/?reason={NASTY}&subject={NASTY}&actor={NASTY}",
    )

    def test_no_page_lets_them_be_more_than_text(self, client: Client) -> None:
        for path in self.PATHS:
            answer = client.get(f"/admin/{path}")
            page = answer.content.decode()
            assert answer.status_code == 200, path
            assert "<img src=x" not in page, path
            assert "<svg onload" not in page, path
            assert "script-src 'self' 'unsafe-eval';" in answer.headers["Content-Security-Policy"]
        for path in ("", "events/", "fleet/instance/"):
            assert escape(NASTY) in client.get(f"/admin/{path}").content.decode(), path


def _set_everywhere(table: str, column: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s", [value])


class TestSecrets:
    """BL-136: nothing secret is on any page after the one that made it."""

    def test_environments_of_models_are_hidden(self, plane: Plane) -> None:
        environment = {"HF_TOKEN": "hf_very_secret", "PASSWORD": "also_secret"}
        plane.call("CreateModel", ModelName="m", PrimaryContainer={"Image": "i", "Environment": environment})
        client = logged_in(Role.ADMINISTRATOR)
        for path in ("catalog/model/", self._row(client)):
            page = client.get(f"/admin/{path}").content.decode()
            assert "secret" not in page
        assert "HF_TOKEN" in page

    def _row(self, client: Client) -> str:
        found = re.search(r'/admin/(catalog/model/[^"/]+/change/)', client.get("/admin/catalog/model/").content.decode())
        assert found
        return found[1]

    def test_a_new_keys_secret_is_shown_once(self, account: Account) -> None:
        client = logged_in(Role.ADMINISTRATOR)
        made = client.post("/admin/access-keys/create/", {"account": account.pk})
        secret = re.search(r"AWS_SECRET_ACCESS_KEY=([\w+/=]+)", made.content.decode())
        assert secret
        assert "no-store" in made.headers["Cache-Control"]
        for path in ("access-keys/", "events/", "", "console/operator/"):
            assert secret[1] not in client.get(f"/admin/{path}").content.decode()
        key = AccessKey.objects.get()
        assert secret[1] not in key.secret_encrypted

    def test_a_missing_page_tells_nothing_of_the_settings(self, account: Account) -> None:
        answer = logged_in(Role.ADMINISTRATOR).get("/admin/no/such/page/")
        assert answer.status_code == 404
        assert "There is nothing here" in text_of(answer)
        assert settings.SECRET_KEY not in answer.content.decode()
