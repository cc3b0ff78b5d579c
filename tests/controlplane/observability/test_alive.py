"""The probe that asks by command: an address, or a role's heartbeat on this host."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg
import pytest
from django.db import connection

from controlplane.observability.alive import FRESH_SECONDS, verdict
from tests.controlplane.routing.peers import free_port

HOST = "here"


@contextmanager
def answering(status: int) -> Iterator[str]:
    """An address where everything is answered by this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"no")

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/readyz"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def database_url(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tests' database, as the environment names one; this host is called `here`."""
    monkeypatch.setattr("socket.gethostname", lambda: HOST)
    settings = connection.settings_dict
    return (
        f"postgresql://{settings['USER']}:{settings['PASSWORD']}@{settings['HOST']}:{settings['PORT']}/{settings['NAME']}"
    )


def beat(url: str, role: str, process_id: str, seconds_ago: float) -> None:
    with psycopg.connect(url) as database:
        database.execute(
            "INSERT INTO observability_heartbeat (role, process_id, seen_at) "
            "VALUES (%s, %s, clock_timestamp() - make_interval(secs => %s))",
            [role, process_id, seconds_ago],
        )


@pytest.mark.parametrize(("status", "is_alive"), [(200, True), (503, False), (404, False)])
def test_an_address_is_alive_when_it_answers_200(status: int, is_alive: bool) -> None:
    with answering(status) as url:
        found, sentence = verdict([url], {})
    assert found is is_alive
    assert str(status) in sentence


def test_an_address_that_nobody_answers_is_dead() -> None:
    assert not verdict([f"http://127.0.0.1:{free_port()}/readyz"], {})[0]


@pytest.mark.parametrize(("seconds_ago", "is_alive"), [(0, True), (FRESH_SECONDS / 2, True), (FRESH_SECONDS + 10, False)])
def test_a_role_is_alive_for_as_long_as_it_beats(database_url: str, seconds_ago: float, is_alive: bool) -> None:
    beat(database_url, "worker", f"{HOST}:7", seconds_ago)
    assert verdict(["worker"], {"HEADRACE_DATABASE_URL": database_url})[0] is is_alive


def test_beats_of_other_roles_and_hosts_do_not_count(database_url: str) -> None:
    beat(database_url, "scheduler", f"{HOST}:7", 0)
    beat(database_url, "worker", f"{HOST}-2:7", 0)
    alive, sentence = verdict(["worker"], {"HEADRACE_DATABASE_URL": database_url})
    assert not alive
    assert sentence == f"No worker on {HOST} has said anything yet."


def test_a_database_that_is_away_restarts_nothing() -> None:
    alive, sentence = verdict(["worker"], {"HEADRACE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"})
    assert alive
    assert "cannot be asked" in sentence


def test_without_a_question_it_says_how_to_ask() -> None:
    assert verdict([], {}) == (False, "usage: python -m controlplane.observability.alive URL|ROLE")
