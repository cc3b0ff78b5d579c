"""How the running gateway learns of endpoints and keys, and what it does while the database is away."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from controlplane.auth.secrets import encrypt
from controlplane.core import clock
from controlplane.gateway.directory import COMPARE_SECONDS
from controlplane.routing.table import Route, Target, VariantRoute, encode
from tests.controlplane.gateway.conftest import DATABASE
from tests.controlplane.gateway.site import LEAST, REPOSITORY, NewContainer, Site, wait_for
from tests.engines_plugin import ACCOUNT


def path(name: str) -> str:
    return f"/endpoints/{name}/invocations"


def route(endpoint_id: object, name: str, *targets: Target) -> dict[str, object]:
    """The document of an endpoint that serves."""
    return encode(
        Route(str(endpoint_id), ACCOUNT, name, "InService", True, None, (VariantRoute("v", 1.0, LEAST, targets),))
    )


CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND application_name = %s"


@pytest.fixture
def cut_off(new_site: Callable[..., Site], gateway_database: str) -> Callable[..., Site]:
    """Starts gateways whose connections to the database can be cut without those of the others."""
    return partial(new_site, HEADRACE_DATABASE_URL=f"{gateway_database}?application_name=cut-off")


@contextmanager
def database_away() -> Iterator[None]:
    """No connection to the gateways' database is possible, and those of gateways that are to be cut off are cut."""
    with psycopg.connect(os.environ["HEADRACE_DATABASE_URL"], autocommit=True) as connection:
        name = sql.Identifier(DATABASE)
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        try:
            connection.execute(CUT, [DATABASE, "cut-off"])
            yield
        finally:
            connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


def test_an_endpoint_is_found_the_moment_it_is_committed_without_a_word(site: Site, containers: NewContainer) -> None:
    one, endpoint_id = containers("one"), uuid4()
    site.write_document(endpoint_id, "silent", route(endpoint_id, "silent", one.target), notify=False)
    assert site.post(path("silent"), b"x").body == b"x"


def test_a_change_arrives_by_its_notification_at_once(site: Site, containers: NewContainer) -> None:
    first, second = containers("first"), containers("second")
    site.publish("moves", first.target)
    assert site.post(path("moves"), b"x").status == 200
    took = []
    for target, serving in [(second.target, second), (first.target, first)] * 3:
        before, since = len(serving.received()), clock.monotonic()
        site.publish("moves", target)
        wait_for(lambda serving=serving, before=before: site.post(path("moves"), b"x") and len(serving.received()) > before)
        took.append(clock.monotonic() - since)
    # Without a notification each change but the first would come right after a comparison, and wait for the next one.
    assert min(took[1:]) < COMPARE_SECONDS / 2


def test_a_missed_notification_is_made_up_for_within_seconds(site: Site, containers: NewContainer) -> None:
    first, second = containers("first"), containers("second")
    endpoint_id = site.publish("missed", first.target)
    assert site.post(path("missed"), b"x").status == 200
    site.write_document(endpoint_id, "missed", route(endpoint_id, "missed", second.target), notify=False)
    wait_for(lambda: site.post(path("missed"), b"x") and second.received())


def test_a_tombstone_ends_an_endpoint(site: Site, containers: NewContainer) -> None:
    endpoint_id = site.publish("dies", containers("one").target)
    assert site.post(path("dies"), b"x").status == 200
    site.write_document(endpoint_id, "dies", None)
    wait_for(lambda: site.post(path("dies"), b"x").status == 400)


def test_a_notification_of_nothing_new_or_of_no_endpoint_harms_nobody(site: Site, containers: NewContainer) -> None:
    one, two = containers("one"), containers("two")
    endpoint_id = site.publish("ordered", one.target)
    assert site.post(path("ordered"), b"x").status == 200
    with site.database() as connection:
        connection.execute("SELECT pg_notify('headrace_routing', %s)", [str(endpoint_id)])
        connection.execute("SELECT pg_notify('headrace_routing', 'no id at all')")
    site.publish("ordered", two.target)
    wait_for(lambda: site.post(path("ordered"), b"x") and two.received())


def test_a_document_that_cannot_be_read_harms_no_endpoint(site: Site, containers: NewContainer) -> None:
    one = containers("one")
    endpoint_id = site.publish("broken", one.target)
    assert site.post(path("broken"), b"x").status == 200
    site.write_document(endpoint_id, "broken", {"from": "a later release"})
    wait_for(lambda: f"the document of endpoint {endpoint_id}" in site.log())
    assert site.post(path("broken"), b"x").status == 200
    site.publish("after-broken", one.target)
    assert site.post(path("after-broken"), b"x").status == 200


@pytest.mark.parametrize("is_active", [True, False])
def test_a_new_key_works_at_once_and_a_disabled_one_stops_within_seconds(
    site: Site, containers: NewContainer, is_active: bool
) -> None:
    site.publish("keyed", containers("one").target)
    key_id = f"AKIDNEW{is_active}".upper()
    with site.database() as connection:
        connection.execute(
            "INSERT INTO identity_accesskey (access_key_id, account_id, secret_encrypted, is_active, created_at)"
            " VALUES (%s, %s, %s, true, now())",
            [key_id, ACCOUNT, encrypt("a-secret", os.environ["HEADRACE_SECRET_KEY"])],
        )
        key = {"access_key_id": key_id, "secret": "a-secret"}
        wait_for(lambda: site.post(path("keyed"), b"x", **key).status == 200)
        assert site.post(path("keyed"), b"x", access_key_id=key_id, secret="another").status == 403
        connection.execute("UPDATE identity_accesskey SET is_active = %s WHERE access_key_id = %s", [is_active, key_id])
    if not is_active:
        wait_for(lambda: site.post(path("keyed"), b"x", **key).status == 403)


def test_another_account_sees_nothing_of_an_endpoint(site: Site, containers: NewContainer) -> None:
    site.publish("mine", containers("one").target)
    with site.database() as connection:
        connection.execute("INSERT INTO identity_account (account_id, created_at) VALUES ('999999999999', now())")
        connection.execute(
            "INSERT INTO identity_accesskey (access_key_id, account_id, secret_encrypted, is_active, created_at)"
            " VALUES ('AKIDOTHER', '999999999999', %s, true, now())",
            [encrypt("other", os.environ["HEADRACE_SECRET_KEY"])],
        )
    key = {"access_key_id": "AKIDOTHER", "secret": "other"}
    answer = wait_for(lambda: (got := site.post(path("mine"), b"x", **key)).status != 403 and got)
    assert answer.json["Message"] == "Endpoint mine of account 999999999999 not found."


def test_calls_are_served_while_the_database_is_away_and_what_is_unknown_is_not_denied(
    cut_off: Callable[..., Site], containers: NewContainer
) -> None:
    site, one = cut_off(), containers("one")
    site.publish("stays", one.target)
    assert site.post(path("stays"), b"x").status == 200
    with database_away():
        for _ in range(20):
            assert site.post(path("stays"), b"x").body == b"x"
        assert site.post(path("never-seen")).status == 503
        accepted = site.post("/endpoints/stays/async-invocations", b"x")
        assert accepted.json["Message"].endswith("does not support this inference type.")
        ready = site.request("GET", "/readyz")
        assert (ready.status, ready.json["broker"]) == (503, "ok")
        assert ready.json["database_and_workers"] != "ok"
    wait_for(lambda: site.post(path("never-seen")).status == 400)
    site.publish("stays", Target("gone", "127.0.0.1:1", "t", False))
    wait_for(lambda: site.post(path("stays"), b"x").status == 424)


@pytest.mark.parametrize("back", [0, 5])
def test_after_a_lost_connection_nothing_is_taken_for_known_by_its_number(
    cut_off: Callable[..., Site], containers: NewContainer, back: int
) -> None:
    """A standby that took over, or a backup that was restored, may give a number again."""
    site, first, second = cut_off(), containers("first"), containers("second")
    name = f"restored-{back}"
    endpoint_id = site.publish(name, first.target)
    wait_for(lambda: site.post(path(name), b"x").status == 200)
    with site.database() as connection:
        connection.execute(
            "UPDATE routing_routingsnapshot SET revision = revision - %s, document = %s WHERE endpoint_id = %s",
            [back, Jsonb(route(endpoint_id, name, second.target)), endpoint_id],
        )
        connection.execute(CUT, [DATABASE, "cut-off"])
    wait_for(lambda: site.post(path(name), b"x") and second.received())


def test_a_gateway_that_starts_without_a_database_denies_nobody(
    site: Site, new_site: Callable[..., Site], containers: NewContainer
) -> None:
    site.publish("early", containers("one").target)
    with database_away():
        late = new_site(knows_routes=False)
        answer = late.post(path("early"), b"x")
        assert (answer.status, answer.json["__type"]) == (503, "ServiceUnavailable")
    wait_for(lambda: late.post(path("early"), b"x").status == 200)


def test_the_data_plane_loads_no_django() -> None:
    look = (
        "import sys, controlplane.gateway.__main__; sys.exit([each for each in sys.modules if each.startswith('django')])"
    )
    subprocess.run([sys.executable, "-c", look.replace("sys.exit(", "assert not (")], cwd=REPOSITORY, check=True)
