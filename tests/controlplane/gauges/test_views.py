"""Who is answered: whoever reaches the API process itself, or brings the token; nobody through the gateway without."""

from dataclasses import replace

import pytest
from django.conf import settings
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

THROUGH_THE_GATEWAY = {"headers": {"Headrace-Request-Id": "r"}}


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, metrics_token="t0ken"))
    return "t0ken"


def test_the_process_itself_answers_in_a_form_that_scrapers_read(db: None) -> None:
    answer = Client().get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(answer.content.decode())}
    assert {"headrace_live_processes", "headrace_short_variants", "headrace_overdue_ends"} <= names


def test_nobody_reads_them_through_the_front_door(db: None) -> None:
    assert Client().get("/metrics", **THROUGH_THE_GATEWAY).status_code == 403


def test_with_a_token_only_who_brings_it_is_answered(db: None, token: str) -> None:
    client = Client()
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer t0kem"}).status_code == 401
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    brought = {"headers": {"Authorization": f"Bearer {token}", "Headrace-Request-Id": "r"}}
    assert client.get("/metrics", **brought).status_code == 200
