"""Fetching payloads from hosts: a real server with a certificate, names that lead where a test says."""

import io
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.invocations.models import AsyncInvocation
from tests.controlplane.gateway.site import Container
from tests.controlplane.routing.peers import free_port
from tests.fakes.clock import FakeClock
from tests.fakes.https import HOST, Payloads, payload_server
from tests.workers.invocations.site import do, object_at, queue_up, run_once
from workers.invocations.inputs import Https, InputAway, InputFault, Inputs
from workers.invocations.plan import Kind
from workers.invocations.store import Store

HERE = "127.0.0.1"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payloads]:
    """The host, trusted."""
    with payload_server(tmp_path) as found:
        monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate))
        yield found


def https(server: Payloads, *addresses: str, **changes: Any) -> Https:
    """A client for which HOST leads to these addresses, all of which count as public."""
    parts = {"resolve": lambda host: list(addresses or (HERE,)), "may_connect": lambda address: True, **changes}
    return Https(frozenset({HOST}), port=server.port, **parts)


def fetched(client: Https, path: str = "/in") -> bytes:
    return b"".join(client.chunks(f"https://{HOST}{path}"))


def fault(client: Https, path: str = "/in") -> InputFault:
    with pytest.raises(InputFault) as caught:
        fetched(client, path)
    return caught.value


def test_a_payload_is_fetched_by_name_from_the_address_that_was_checked(server: Payloads) -> None:
    body = bytes(range(256)) * 4096
    server.answers["/in?version=1"] = (200, {}, body)
    assert fetched(https(server), "/in?version=1") == body
    assert server.asked == [(HOST, "/in?version=1")]


def test_a_name_is_resolved_once_so_that_a_second_answer_gains_nothing(server: Payloads) -> None:
    server.answers["/in"] = (200, {}, b"x")
    answers = iter([[HERE], ["10.0.0.1"]])
    client = https(server, resolve=lambda host: next(answers))
    assert fetched(client) == b"x"
    assert next(answers) == ["10.0.0.1"]


@pytest.mark.parametrize("addresses", [[HERE], ["8.8.8.8", "169.254.169.254"], []])
def test_a_name_that_leads_inside_is_refused_before_anything_is_connected(server: Payloads, addresses: list[str]) -> None:
    found = fault(Https(frozenset({HOST}), resolve=lambda host: addresses, port=server.port))
    assert found.kind is Kind.INPUT_REFUSED
    assert "public internet" in str(found)
    assert server.asked == []


def test_a_host_that_is_not_allowed_is_not_even_resolved(server: Payloads) -> None:
    def resolve(host: str) -> list[str]:
        raise AssertionError(host)

    assert fault(Https(frozenset(), resolve=resolve)).kind is Kind.INPUT_REFUSED


def test_a_server_that_cannot_prove_its_name_is_refused(server: Payloads) -> None:
    client = Https(frozenset({"other.example.com"}), lambda host: [HERE], lambda address: True, server.port)
    with pytest.raises(InputFault, match="who it says it is") as caught:
        list(client.chunks("https://other.example.com/in"))
    assert caught.value.kind is Kind.INPUT_REFUSED
    assert server.asked == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, Kind.INPUT_REFUSED),
        (302, Kind.INPUT_REFUSED),
        (401, Kind.INPUT_REFUSED),
        (403, Kind.INPUT_REFUSED),
        (206, Kind.INPUT_REFUSED),
        (404, Kind.INPUT_MISSING),
        (410, Kind.INPUT_MISSING),
    ],
)
def test_what_the_host_says_is_final(server: Payloads, status: int, kind: Kind) -> None:
    server.answers["/in"] = (status, {"Location": "https://127.0.0.1/"}, b"")
    assert fault(https(server)).kind is kind
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_unless_it_says_not_now(server: Payloads, status: int) -> None:
    server.answers["/in"] = (status, {}, b"")
    with pytest.raises(InputAway):
        fetched(https(server))


def test_a_payload_that_breaks_off_is_no_payload(server: Payloads) -> None:
    server.answers["/in"] = (200, {}, b"x" * 1000)
    server.cut.add("/in")
    with pytest.raises(InputAway, match="broke off"):
        fetched(https(server))


def test_what_is_encoded_is_left_as_it_is(server: Payloads) -> None:
    server.answers["/in"] = (200, {"Content-Encoding": "gzip"}, b"not even gzip")
    assert fetched(https(server)) == b"not even gzip"


def test_the_next_address_is_tried_where_one_takes_no_connection(server: Payloads) -> None:
    server.answers["/in"] = (200, {}, b"x")
    assert fetched(https(server, "127.0.0.2", HERE)) == b"x"


def test_a_host_out_of_reach_and_one_that_does_not_exist_are_told_apart(server: Payloads) -> None:
    port = free_port()
    with pytest.raises(InputAway, match="cannot be reached"):
        fetched(Https(frozenset({HOST}), lambda host: [HERE], lambda address: True, port))

    def unknown(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def unsure(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    assert fault(https(server, resolve=unknown)).kind is Kind.INPUT_MISSING
    with pytest.raises(InputAway, match="cannot be resolved"):
        fetched(https(server, resolve=unsure))


def inputs(server: Payloads, limit: int = 1000, seconds: float = 60) -> Inputs:
    return Inputs(Store("http://127.0.0.1:1", "us-east-1"), https(server), limit, seconds)


def test_no_more_than_the_limit_is_taken(server: Payloads) -> None:
    server.answers |= {"/fits": (200, {}, b"x" * 1000), "/does-not": (200, {}, b"x" * 1001)}
    into = io.BytesIO()
    assert do(inputs(server).fetch(f"https://{HOST}/fits", into)) == 1000
    assert into.getvalue() == b"x" * 1000
    with pytest.raises(InputFault) as caught:
        do(inputs(server).fetch(f"https://{HOST}/does-not", io.BytesIO()))
    assert caught.value.kind is Kind.INPUT_TOO_LARGE


def test_no_payload_takes_longer_than_the_time_allowed(server: Payloads, fake_clock: FakeClock) -> None:
    server.answers["/in"] = (200, {}, b"x")

    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            fake_clock.step(61)
            return super().write(data)

    server.answers["/in"] = (200, {}, b"x" * 600_000)
    with pytest.raises(InputAway, match="within 60 s"):
        do(inputs(server, 1_000_000).fetch(f"https://{HOST}/in", Slow()))


@pytest.mark.django_db(transaction=True)
def test_a_payload_on_a_host_reaches_the_model(server: Payloads, model: Container) -> None:
    server.answers["/in"] = (200, {}, b"from afar")
    row: AsyncInvocation = run_once(queue_up(input_location=f"https://{HOST}/in"), model.address, https=https(server))
    assert (row.state, object_at(row.output_location)) == ("completed", b"from afar")
