"""What arrives at the port besides good requests: wrong paths and verbs, bad HTTP, large heads, slow clients."""

import socket
from contextlib import closing

import pytest

from tests.controlplane.gateway.site import PATIENCE_SECONDS, Site

LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""A request after whose answer the gateway closes."""


def talk(site: Site, *pieces: bytes) -> bytes:
    """Send raw bytes, and read until the gateway closes."""
    with closing(socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS)) as raw:
        answer = b""
        try:
            for piece in pieces:
                raw.sendall(piece)
            while chunk := raw.recv(65536):
                answer += chunk
        except ConnectionError:
            pass
    return answer


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/endpoints/one/nothing", 404, "UnknownOperationException"),
        ("POST", "/endpoints/one/invocations/", 404, "UnknownOperationException"),
        ("GET", "/endpoints/one/invocations-response-stream", 405, "UnknownOperationException"),
        ("GET", "/endpoints/one/invocations", 405, "UnknownOperationException"),
        ("PUT", "/endpoints/one/async-invocations", 405, "UnknownOperationException"),
    ],
)
def test_wrong_paths_and_verbs_are_json_errors_of_the_runtime(
    site: Site, method: str, path: str, status: int, code: str
) -> None:
    answer = site.request(method, path)
    assert (answer.status, answer.json["__type"], answer.headers["x-amzn-errortype"]) == (status, code, code)
    assert answer.json["Message"]
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)
    assert answer.headers["x-amzn-requestid"]
    assert answer.headers["date"]
    assert answer.headers["content-length"] == str(len(answer.body))


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: -5\r\n",
        b"Content-Length : 5\r\n",
        b"X-Folded: a\r\n b\r\nContent-Length: 5\r\n",
        b"X-Nul: a\x00b\r\n",
    ],
)
def test_a_request_that_two_parsers_might_read_differently_is_refused_and_the_connection_closed(
    site: Site, head: bytes
) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = talk(site, b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n0\r\n\r\n" + smuggled)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"SerializationException" in answer
    assert b"connection: close" in answer.lower()
    assert b"x-amzn-requestid" in answer.lower()


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"X-%d: 1\r\n" % number for number in range(500)),
        b"X-Large: " + b"x" * 70_000 + b"\r\n",
        b"X-Endless: " + b"x" * 300_000,
    ],
)
def test_a_head_with_too_many_fields_or_bytes_is_refused(site: Site, head: bytes) -> None:
    assert talk(site, b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n").startswith(b"HTTP/1.1 431 ")


def test_an_endless_path_is_cut_off(site: Site) -> None:
    answer = talk(site, b"POST /", *(b"x" * 60_000 for _ in range(20)))
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


def test_a_long_path_is_an_answer_like_any_other(site: Site) -> None:
    assert site.request("GET", "/" + "x" * 10_000).status == 200
    assert site.request("POST", f"/endpoints/{'x' * 10_000}/invocations").status == 403


def test_the_paths_of_metrics_and_alarms_are_the_apis(site: Site) -> None:
    path = "/service/GraniteServiceVersion20100801/operation/PutMetricAlarm"
    sent = site.signed(path, b"\xa0", {"smithy-protocol": "rpc-v2-cbor"}, service="monitoring")
    answer = site.request("POST", path, b"\xa0", sent)
    assert (answer.json["method"], answer.json["path"]) == ("POST", path)
    assert ["smithy-protocol", "rpc-v2-cbor"] in answer.json["headers"]


def test_bad_bytes_in_the_midst_of_a_body_end_the_connection(site: Site) -> None:
    answer = talk(site, b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\nnot a size\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_websocket_is_not_opened(site: Site) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}
    assert site.request("GET", "/", headers=upgrade).status == 200


def test_two_requests_on_one_connection_are_both_answered(site: Site) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    assert talk(site, ask + LAST).count(b"HTTP/1.1 200 ") == 2


def test_hundreds_of_silent_clients_hold_nobody_up(site: Site) -> None:
    silent = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(300)]
    try:
        for each in silent:
            each.sendall(b"POST /endpoints/one/invocations HTTP/1.1\r\nContent-Length: 100\r\nX-Slow")
        assert site.request("GET", "/healthz").status == 200
    finally:
        for each in silent:
            each.close()


def test_every_request_has_an_id_of_its_own(site: Site) -> None:
    ids = {site.request("GET", "/healthz").headers["x-amzn-requestid"] for _ in range(20)}
    assert len(ids) == 20
