"""InvokeEndpointAsync from outside, as no SDK would send it: raw bytes, headers given twice, clients that do not wait."""

import socket
import uuid
from collections.abc import Mapping

import pytest

from tests.controlplane.gateway.site import PATIENCE_SECONDS, Site
from tests.controlplane.gateway.test_asynchronous import count

LIMIT = 128_000
PATH = "/endpoints/odd/async-invocations"
PREFIX = "X-Amzn-SageMaker-"


@pytest.fixture(autouse=True)
def odd(site: Site) -> uuid.UUID:
    """The asynchronous endpoint `odd`, which has no instance."""
    return site.publish("odd", failure_path="s3://bucket/failed/")


def head(site: Site, body: bytes, covered: Mapping[str, str], *lines: str) -> bytes:
    """The head of a POST whose signature covers `covered`; `lines` are sent as they are, and as what is covered."""
    signed = site.signed(PATH, body, covered)
    sent = {name: value for name, value in signed.items() if name not in covered or not lines}
    given = [f"{name}: {value}" for name, value in {"Host": f"127.0.0.1:{site.port}", **sent}.items()]
    return "\r\n".join([f"POST {PATH} HTTP/1.1", *given, *lines, "", ""]).encode("latin-1")


def exchange(site: Site, *parts: bytes) -> tuple[int, bytes]:
    """Send all of it before anything is read; status and body of what comes back before the end of the connection."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as opened:
        for part in parts:
            opened.sendall(part)
        received = b""
        while data := opened.recv(65536):
            received += data
    status, _, rest = received.partition(b"\r\n")
    return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]


# Clients that send on although they are answered.


@pytest.mark.parametrize("size", [LIMIT + 1, 2_000_000])
@pytest.mark.parametrize("closing", ["Connection: close", "Connection: keep-alive, close"])
def test_a_client_that_sends_its_whole_body_first_hears_that_it_is_too_large(site: Site, size: int, closing: str) -> None:
    body = b"a" * size
    status, said = exchange(site, head(site, body, {}, closing, f"Content-Length: {size}"), body)
    assert status == 400
    assert f"{LIMIT} bytes".encode() in said


def test_a_client_of_http_1_0_hears_it_too(site: Site) -> None:
    body = b"a" * (LIMIT + 1)
    old = head(site, body, {}, f"Content-Length: {len(body)}").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    assert exchange(site, old, body)[0] == 400


def test_a_client_whose_head_is_too_large_hears_it_although_it_sends_on(site: Site) -> None:
    lines = [f"X-Large-{place}: {'x' * 8000}" for place in range(20)]
    status, _ = exchange(site, head(site, b"", {}, "Connection: close", *lines), b"x" * 1_000_000)
    assert status == 431


def test_a_client_that_never_stops_sending_is_left_after_a_while(site: Site) -> None:
    start = head(site, b"", {}, "Connection: close", "Content-Length: 100000000000")

    def send_on(opened: socket.socket) -> None:
        while True:
            opened.sendall(b"a" * 1_000_000)

    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as opened:
        opened.sendall(start)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_on(opened)


# The limit, however the body is framed.


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[place : place + size] for place in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize(("size", "status"), [(LIMIT, 202), (LIMIT + 1, 400)])
def test_the_limit_is_the_same_for_a_body_in_chunks(site: Site, size: int, status: int) -> None:
    body, before = b"a" * size, count(site)
    start = head(site, body, {}, "Connection: close", "Transfer-Encoding: chunked")
    assert exchange(site, start, chunked(body, 9_999))[0] == status
    assert count(site) - before == (status == 202)


# Headers.


def members(site: Site, lines: list[str], body: bytes = b"x", **covered: str) -> tuple[int, bytes, int]:
    """Send these lines under a signature that is good; status, answer, and how many requests were stored."""
    before = count(site)
    named = {f"{PREFIX}{name.replace('_', '-')}": value for name, value in covered.items()}
    start = head(site, body, named, *lines, "Connection: close", f"Content-Length: {len(body)}")
    status, said = exchange(site, start, body)
    return status, said, count(site) - before


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("InputLocation", ("s3://bucket/key", "")),
        ("InputLocation", ("s3://bucket/key", "s3://bucket/other")),
        ("Filename", ("a", "b")),
        ("Inference-Id", ("same", "same")),
        ("RequestTTLSeconds", ("60", "61")),
    ],
)
def test_a_member_that_is_given_twice_is_refused_by_name(site: Site, name: str, values: tuple[str, str]) -> None:
    """Whoever reads the first and whoever reads the last would otherwise see two requests."""
    lines = [f"{PREFIX}{name}: {value}" for value in values]
    status, said, stored = members(site, lines, **{name: ",".join(values)})
    assert (status, stored) == (400, 0)
    assert f"x-amzn-sagemaker-{name.lower()} more than once".encode() in said


@pytest.mark.parametrize("operation", ["invocations", "invocations-response-stream", "async-invocations"])
@pytest.mark.parametrize("closing", ["close", "keep-alive"])
def test_every_operation_refuses_it_whichever_way_the_request_goes(site: Site, operation: str, closing: str) -> None:
    path, name = f"/endpoints/odd/{operation}", f"{PREFIX}Inference-Id"
    signed = site.signed(path, b"x", {name: "a,b"})
    del signed[name]
    lines = [f"{key}: {value}" for key, value in {"Host": f"127.0.0.1:{site.port}", **signed}.items()]
    lines += [f"{name}: a", f"{name}: b", f"Connection: {closing}", "Content-Length: 1"]
    start = "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", "x"]).encode()
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as opened:
        opened.sendall(start)
        received = b""
        while not received.endswith(b"}"):
            received += opened.recv(65536)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"x-amzn-sagemaker-inference-id more than once" in received


def test_a_header_that_is_no_member_may_be_given_twice(site: Site) -> None:
    status, _, stored = members(site, ["X-Other: a", "X-Other: b"])
    assert (status, stored) == (202, 1)


@pytest.mark.parametrize(
    "line",
    [
        "Custom-Attributes: a\nX-Injected: 1",
        "Custom-Attributes: a\rX-Injected: 1",
        "Custom-Attributes: a\x00b",
        "Custom-Attributes: a\x01b",
        "Custom-Attributes: a\x7fb",
        "Custom-Attributes: a\r\n folded",
        "Filename : a",
    ],
    ids=["LF", "CR", "NUL", "control", "DEL", "folded", "space before the colon"],
)
def test_what_could_be_a_second_header_is_no_request_at_all(site: Site, line: str) -> None:
    status, _, stored = members(site, [PREFIX + line], Custom_Attributes="a")
    assert (status, stored) == (400, 0)


@pytest.mark.parametrize("name", ["InputLocation", "Filename", "Inference_Id", "RequestTTLSeconds", "Content_Type"])
@pytest.mark.parametrize("value", ["", "  "], ids=["empty", "blank"])
def test_a_header_without_a_value_is_none(site: Site, name: str, value: str) -> None:
    status, _, stored = members(site, [f"{PREFIX}{name.replace('_', '-')}:{value}"], **{name: ""})
    assert (status, stored) == (202, 1)


@pytest.mark.parametrize("value", ["+60", "6_0", "60.0", "0x3c", "6e1", "sixty", "9" * 30, "59", "21601", "-60"])
def test_a_number_is_digits_within_its_bounds(site: Site, value: str) -> None:
    status, said, stored = members(site, [f"{PREFIX}RequestTTLSeconds: {value}"], RequestTTLSeconds=value)
    assert (status, stored) == (400, 0)
    assert b"equestTTLSeconds" in said


@pytest.mark.parametrize(("name", "value"), [("RequestTTLSeconds", "60"), ("RequestTTLSeconds", "21600")])
@pytest.mark.parametrize("timeout", ["1", "3600"])
def test_the_bounds_themselves_are_allowed(site: Site, name: str, value: str, timeout: str) -> None:
    lines = [f"{PREFIX}{name}: {value}", f"{PREFIX}InvocationTimeoutSeconds: {timeout}"]
    status, _, stored = members(site, lines, **{name: value, "InvocationTimeoutSeconds": timeout})
    assert (status, stored) == (202, 1)


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 1", "Content-Length: 2"],
        ["Content-Length: 1", "Transfer-Encoding: chunked"],
        ["Content-Length: -1"],
        ["Content-Length: 1x"],
    ],
    ids=["two lengths", "length and chunks", "negative", "no number"],
)
def test_a_body_whose_end_can_be_read_in_two_ways_is_refused(site: Site, lines: list[str]) -> None:
    before = count(site)
    assert exchange(site, head(site, b"x", {}, *lines), b"x")[0] == 400
    assert count(site) == before


# Clients that ask first.


@pytest.mark.parametrize("declared", [LIMIT + 1, 10_000_000])
def test_a_client_that_asks_first_and_hears_no_is_left_with_no_connection_to_confuse(site: Site, declared: int) -> None:
    """It keeps its body: what it sent next on the connection would be taken for that."""
    start = head(site, b"", {}, "Expect: 100-continue", f"Content-Length: {declared}")
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as opened:
        opened.sendall(start)
        received = b""
        while data := opened.recv(65536):
            received += data
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in received.lower()


def test_a_client_that_asks_first_and_hears_yes_goes_on_with_its_connection(site: Site) -> None:
    start = head(site, b"x", {}, "Expect: 100-continue", "Content-Length: 1")
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as opened:
        for _ in range(2):
            opened.sendall(start)
            assert opened.recv(65536).startswith(b"HTTP/1.1 100 ")
            opened.sendall(b"x")
            received = b""
            while not received.endswith(b"}"):
                received += opened.recv(65536)
            assert received.startswith(b"HTTP/1.1 202 ")
