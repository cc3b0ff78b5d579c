"""The lists of rows: read-only, never counted where they may be long, with as many queries for any number of rows."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.auth.roles import Role
from tests.controlplane.console.people import endpoint_path, logged_in
from tests.workers.plane import THIRD, Plane

LONG = ("fleet/instance/", "fleet/launchattempt/", "observability/event/", "invocations/asyncinvocation/")
LISTS = (*LONG, "catalog/model/", "catalog/endpointconfig/", "endpoints/endpoint/", "metrics/metricalarm/")


@pytest.fixture
def client(plane: Plane) -> Client:
    """Somebody who looks, at a plane with one endpoint."""
    plane.create("e", types=(THIRD,), count=2)
    plane.settle()
    return logged_in(Role.VIEWER)


def asked(client: Client, path: str) -> list[str]:
    """The queries that a page takes."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(f"/admin/{path}").status_code == 200, path
    return [query["sql"] for query in queries.captured_queries]


def test_long_lists_are_never_counted(client: Client) -> None:
    """BL-137: COUNT(*) over a month of requests times out."""
    for path in LONG:
        assert not [sql for sql in asked(client, path) if "COUNT(" in sql], path


def test_the_queries_are_as_many_for_many_rows(plane: Plane, client: Client) -> None:
    before = {path: len(asked(client, path)) for path in LISTS}
    for place in range(10):
        plane.create(f"more-{place}", types=(THIRD,), count=2)
    plane.settle()
    assert {path: len(asked(client, path)) for path in LISTS} == before


def test_rows_are_found_by_name_and_filtered(plane: Plane, client: Client) -> None:
    plane.create("other", types=(THIRD,))
    plane.settle()
    found = client.get("/admin/endpoints/endpoint/?q=oth").content.decode()
    assert (
        len(re.findall(r"/endpoint/[0-9a-f-]+/change/", found))
        == len(re.findall(r"/endpoint/[0-9a-f-]+/change/[^>]*>other<", found))
        == 1
    )
    assert client.get("/admin/fleet/instance/?stage__exact=ready").content.decode().count("serves,") == 3
    assert "serves," not in client.get("/admin/fleet/instance/?stage__exact=pending").content.decode()


def test_a_row_leads_to_the_page_of_its_endpoint_and_tells_times_in_utc(plane: Plane, client: Client) -> None:
    listed = client.get("/admin/fleet/instance/").content.decode()
    assert f'href="{endpoint_path("e")}"' in listed
    assert "Instances" in re.search("<title>(.*?)</title>", listed, re.DOTALL).group(1)
    row = re.search(r'href="(/admin/fleet/instance/[0-9a-f-]+/change/)', listed)
    shown = client.get(row[1]).content.decode()
    assert f'href="{endpoint_path("e")}"' in shown
    assert f"{plane.clock.now():%Y-%m-%d}" in shown
    for page in (listed, shown):
        assert re.search(r"\d\d:\d\d:\d\d UTC", page)
        assert " object (" not in page
        assert "Select" not in page


def test_a_record_is_called_by_its_own_name(client: Client) -> None:
    listed = client.get("/admin/catalog/model/").content.decode()
    row = re.search(r'href="(/admin/catalog/model/[0-9a-f-]+/change/)[^>]*>([^<]+)<', listed)
    assert re.search(rf"</span>\s*<a [^>]*>\s*{re.escape(row[2])}\s*</a>", client.get(row[1]).content.decode())


def test_the_path_above_a_list_leads_to_the_front_page(client: Client) -> None:
    assert client.get("/admin/fleet/").headers["Location"] == "/admin/"


@pytest.mark.parametrize(
    "asked",
    [
        "catalog/model/?request__PrimaryContainer__Environment__TOKEN__startswith=a",
        "catalog/endpointconfig/?request__contains=a",
        "catalog/model/?account__access_keys__secret_encrypted__startswith=a",
        "endpoints/endpoint/?name__regex=(a*)*b",
        "endpoints/endpoint/?name=%00",
        "endpoints/endpoint/?phase__exact=%00",
        "fleet/instance/?stage__exact=%00",
        "fleet/instance/?stage__regex=(",
        "console/operator/?password__startswith=pbkdf2",
        "console/operator/?username=%00",
    ],
)
def test_a_list_is_asked_for_nothing_but_what_its_own_filters_offer(plane: Plane, asked: str) -> None:
    """What a page hides could otherwise be found out letter by letter, and the asker's patterns be run."""
    assert logged_in(Role.ADMINISTRATOR).get(f"/admin/{asked}").status_code == 400


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.group)
def test_no_role_changes_a_row_here(plane: Plane, role: Role) -> None:
    plane.create("e", types=(THIRD,))
    plane.settle()
    client = logged_in(role)
    for path in LISTS:
        assert client.get(f"/admin/{path}add/").status_code == 403, path
    page = client.get("/admin/endpoints/endpoint/").content.decode()
    row = re.search(r'href="(/admin/endpoints/endpoint/[0-9a-f-]+/)change/', page)
    assert row
    assert client.post(f"{row[1]}change/", {"name": "renamed"}).status_code == 403
    assert client.post(f"{row[1]}delete/", {"post": "yes"}).status_code == 403
    assert plane.exists("e")
