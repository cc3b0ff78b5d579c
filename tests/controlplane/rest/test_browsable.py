"""The resource paths as pages: for operators who are logged in, and for nobody else."""

import re

import pytest
from django.test import Client

from controlplane.auth.roles import Role
from tests.controlplane.rest.conftest import Ask
from tests.controlplane.rest.every_path import READS, READS_BY_POST, filled
from tests.controlplane.rest.people import browser_of, token_of, user_of
from tests.fakes.clock import FakeClock
from tests.workers.plane import Plane

ENDPOINTS = "/api/v1/endpoints"
CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize("accept", ["*/*", "application/json", "", "application/json, text/html;q=0.1"])
def test_json_is_what_is_answered_unless_a_page_is_asked_for(db: None, accept: str) -> None:
    found = browser_of(user_of(Role.VIEWER)).get(ENDPOINTS, headers={"Accept": accept})
    assert found.headers["Content-Type"].startswith("application/json")


def test_a_browser_without_a_session_and_a_client_with_a_token_get_json(plane: Plane) -> None:
    for client in (Client(), Client(headers={"Authorization": f"Bearer {token_of(Role.VIEWER)}"})):
        found = client.get(ENDPOINTS, headers={"Accept": CHROME})
        assert found.headers["Content-Type"].startswith("application/json")


def test_an_operator_sees_a_page_whose_assets_all_come_from_here(plane: Plane) -> None:
    plane.create()
    found = browser_of(user_of(Role.OPERATOR)).get(ENDPOINTS, headers={"Accept": CHROME})
    page = found.content.decode()
    assert (found.status_code, found.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "alice, operator, account" in page
    assert "EndpointName" in page
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    assert all(link.startswith(("/", "#")) for link in links), links
    assert "frame-ancestors 'none'" in found.headers["Content-Security-Policy"]
    assert "unsafe" not in found.headers["Content-Security-Policy"].partition("style-src")[0]
    assert not re.search(r"<script(?![^>]*(src=|application/json))", page), "no script is written into the page"
    for link in {link for link in links if link.startswith("/static/")}:
        assert Client().get(link).status_code == 200, link


ALWAYS_DATA = "/api/v1/async-requests/{request_id}/output"
"""What a model answered is never a page."""


@pytest.mark.parametrize("path", sorted(({path for _, path in READS} | READS_BY_POST) - {ALWAYS_DATA}))
def test_every_path_is_a_page_also_where_it_refuses(db: None, fake_clock: FakeClock, path: str) -> None:
    found = browser_of(user_of(Role.ADMINISTRATOR)).get(filled(path), headers={"Accept": CHROME})
    assert found.status_code in (200, 400, 404, 405)
    assert found.headers["Content-Type"].startswith("text/html")
    if found.status_code != 200:
        assert "__type" in found.content.decode()


def test_there_is_a_form_for_what_the_role_allows_alone(plane: Plane) -> None:
    plane.create()
    path = f"{ENDPOINTS}/e"
    viewer = browser_of(user_of(Role.VIEWER)).get(path, headers={"Accept": CHROME}).content.decode()
    operator = browser_of(user_of(Role.OPERATOR, "bob")).get(path, headers={"Accept": CHROME}).content.decode()
    assert 'data-method="DELETE"' in operator
    assert 'data-method="PUT"' in operator
    assert 'data-method="DELETE"' not in viewer
    assert 'data-method="PUT"' not in viewer


def test_an_operator_who_looks_around_finds_every_list(db: None) -> None:
    browser = browser_of(user_of(Role.VIEWER))
    assert Client().get("/api/v1/").json()["__type"] == "MissingAuthenticationTokenException"
    lists = browser.get("/api/v1/").json()
    assert {link.removeprefix("http://testserver") for link in lists.values()} == {
        path
        for method, path in READS
        if method == "GET" and "{" not in path and path.count("/") == 3 and path not in NOT_A_LIST
    }
    for link in lists.values():
        assert f'href="{link}"' in browser.get("/api/v1/", headers={"Accept": CHROME}).content.decode()


NOT_A_LIST = {"/api/v1/dead-letter-counts", "/api/v1/tags"}
"""They need to be told of what."""


def test_a_refused_change_is_a_page_too(db: None) -> None:
    browser = browser_of(user_of(Role.ADMINISTRATOR))
    found = browser.delete(f"{ENDPOINTS}/e", headers={"Accept": CHROME})
    assert (found.status_code, found.headers["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert "CSRF" in found.content.decode()


def test_what_strangers_wrote_is_shown_and_not_run(plane: Plane, ask: Ask) -> None:
    nasty = "<script>alert(1)</script>"
    assert ask("POST", "/api/v1/tokens", {"Name": nasty}).status == 201
    page = browser_of(user_of(Role.VIEWER)).get("/api/v1/tokens", headers={"Accept": CHROME}).content.decode()
    assert nasty not in page
    assert "&lt;script&gt;alert(1)" in page
