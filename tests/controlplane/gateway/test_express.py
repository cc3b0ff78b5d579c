"""The two ways of an asynchronous accept must not be told apart: what arrives in one piece, and what arrives in several."""

import json
import re
import signal
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg.rows import dict_row

from tests.controlplane.gateway.site import PATIENCE_SECONDS, Answer, Site, wait_for

NAME = "express"
PATH = f"/endpoints/{NAME}/async-invocations"
OTHERS = {
    "X-Amzn-SageMaker-Content-Type": "text/plain",
    "X-Amzn-SageMaker-Custom-Attributes": "mode=echo",
    "X-Amzn-SageMaker-Filename": "name.txt",
    "X-Amzn-SageMaker-S3OutputPathExtension": "some/where",
}

Write = Callable[[socket.socket, bytes, bytes], None]


@pytest.fixture(autouse=True)
def endpoint(site: Site) -> uuid.UUID:
    """An asynchronous endpoint that has no instance, and that the gateway knows."""
    found = site.publish(NAME, failure_path="s3://bucket/failed")
    wait_for(lambda: site.post(PATH, b"warm up").status == 202)
    return found


def whole(line: socket.socket, head: bytes, body: bytes) -> None:
    line.sendall(head + body)


def in_two(line: socket.socket, head: bytes, body: bytes) -> None:
    line.sendall(head)
    wait_for(lambda: _is_read(line))
    line.sendall(body)


def in_the_midst_of_the_body(line: socket.socket, head: bytes, body: bytes) -> None:
    line.sendall(head + body[:1])
    wait_for(lambda: _is_read(line))
    line.sendall(body[1:])


WAYS: list[Write] = [whole, in_two, in_the_midst_of_the_body]


def _waiting(line: socket.socket) -> int | None:
    """Bytes that wait at the gateway's end of the connection (Linux's list of them), None where there is none."""
    mine, theirs = line.getsockname()[1], line.getpeername()[1]
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = [row[4] for row in rows if row[1].endswith(f":{theirs:04X}") and row[2].endswith(f":{mine:04X}")]
    return int(found[0].partition(":")[2], 16) if found else None


def _is_read(line: socket.socket) -> bool:
    """Whether the gateway has read all that was sent."""
    return _waiting(line) == 0


@contextmanager
def connected(site: Site) -> Iterator[socket.socket]:
    """A connection without Nagle's algorithm, so that each write is a packet."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield line


def head_of(site: Site, body: bytes, path: str = PATH, extra: dict[str, str] | None = None, **key: str) -> bytes:
    """The head of a signed request."""
    headers = {**site.signed(path, body, {"Host": f"127.0.0.1:{site.port}", **(extra or {})}, **key)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() != "content-length")
    return f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode()


def answers(line: socket.socket, count: int) -> list[Answer]:
    """So many answers, in the order in which they come."""
    reader, found = line.makefile("rb"), []
    while len(found) < count:
        status = int(reader.readline().split()[1])
        lines = iter(lambda: reader.readline().strip(), b"")
        headers = {
            name.lower().decode(): value.strip().decode() for name, _, value in (each.partition(b":") for each in lines)
        }
        if status != 100:
            found.append(Answer(status, headers, reader.read(int(headers["content-length"]))))
    return found


def send(site: Site, write: Write, body: bytes = b"payload", **more: Any) -> Answer:
    with connected(site) as line:
        write(line, head_of(site, body, **more), body)
        return answers(line, 1)[0]


def row_of(site: Site, answer: Answer) -> dict[str, Any]:
    """What was stored, without what differs from request to request."""
    query = (
        "SELECT invocation.*, payload.body FROM invocations_asyncinvocation invocation"
        " JOIN invocations_asyncpayload payload ON payload.invocation_id = invocation.id WHERE inference_id = %s"
    )
    with site.database() as connection:
        rows = connection.cursor(row_factory=dict_row).execute(query, [answer.json["InferenceId"]]).fetchall()
    assert len(rows) == 1
    own = {"id", "inference_id", "accepted_at", "expires_at", "due_at"}
    return {name: _without_ids(value) for name, value in rows[0].items() if name not in own}


def _without_ids(value: object) -> object:
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", value) if isinstance(value, str) else value


# Both ways.


def test_each_way_stores_and_answers_the_same(site: Site) -> None:
    told = [send(site, write, extra=OTHERS) for write in WAYS]
    assert [answer.status for answer in told] == [202] * 3
    assert told[0].headers.keys() == told[1].headers.keys() == told[2].headers.keys()
    rows = [row_of(site, answer) for answer in told]
    assert rows[0] == rows[1] == rows[2]
    assert bytes(rows[0]["body"]) == b"payload"


@pytest.mark.parametrize(
    ("extra", "key", "status"),
    [
        ({}, {"secret": "wrong"}, 403),
        ({}, {"access_key_id": "AKIANOBODY"}, 403),
        ({"X-Amzn-SageMaker-RequestTTLSeconds": "1"}, {}, 400),
        ({"X-Amzn-SageMaker-S3OutputPathExtension": "../up"}, {}, 400),
        ({"X-Amzn-SageMaker-InputLocation": "s3://a/b"}, {}, 400),
    ],
)
def test_each_way_refuses_with_the_same_words(site: Site, extra: dict[str, str], key: dict[str, str], status: int) -> None:
    told = [send(site, write, extra=extra, **key) for write in WAYS]
    assert [answer.status for answer in told] == [status] * 3
    assert told[0].json == told[1].json == told[2].json
    assert len({answer.headers["x-amzn-errortype"] for answer in told}) == 1


def test_an_endpoint_that_is_not_there_is_refused_with_the_same_words(site: Site) -> None:
    path = "/endpoints/never-was/async-invocations"
    told = [send(site, write, path=path) for write in WAYS]
    assert [answer.status for answer in told] == [400] * 3
    assert told[0].json == told[1].json == told[2].json


def test_a_body_over_the_limit_is_refused_even_if_it_arrives_in_one_piece(site: Site) -> None:
    body = b"x" * 128_001
    head = head_of(site, body)
    with connected(site) as line:
        for _ in range(8):  # so that the gateway's end of the connection has room for all of it
            whole(line, head_of(site, body[1:]), body[1:])
            assert answers(line, 1)[0].status == 202
        assert site.process is not None
        site.process.send_signal(signal.SIGSTOP)
        try:
            whole(line, head, body)
            wait_for(lambda: _waiting(line) == len(head) + len(body))
        finally:
            site.process.send_signal(signal.SIGCONT)
        told = answers(line, 1)[0]
    assert (told.status, told.headers["x-amzn-errortype"]) == (400, "ValidationError")
    assert "128000" in told.json["Message"]


# The connection.


def test_requests_sent_without_waiting_are_answered_in_their_order(site: Site) -> None:
    bodies = [b"first", b"second", b"third"]
    asked = [head_of(site, body, extra={"X-Amzn-SageMaker-Inference-Id": body.decode()}) + body for body in bodies]
    refused = head_of(site, b"x", secret="wrong") + b"x"
    with connected(site) as line:
        line.sendall(asked[0] + asked[1] + refused + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + asked[2])
        told = answers(line, 5)
    assert [answer.status for answer in told] == [202, 202, 403, 200, 202]
    assert [told[place].json["InferenceId"] for place in (0, 1, 4)] == ["first", "second", "third"]


def test_a_connection_serves_one_accept_after_the_other(site: Site) -> None:
    with connected(site) as line:
        for number in range(5):
            body = b"%d" % number
            whole(line, head_of(site, body), body)
            assert answers(line, 1)[0].status == 202


def test_a_connection_that_is_to_be_closed_is_closed_after_the_answer(site: Site) -> None:
    with connected(site) as line:
        whole(line, head_of(site, b"last", extra={"Connection": "close"}), b"last")
        answer = answers(line, 1)[0]
        assert (answer.status, answer.headers["connection"]) == (202, "close")
        assert line.recv(1) == b""


def test_a_client_that_asks_first_is_told_to_go_on(site: Site) -> None:
    assert send(site, in_two, extra={"Expect": "100-continue"}).status == 202


def test_what_a_client_sent_that_hung_up_is_stored_all_the_same(site: Site) -> None:
    name = uuid.uuid4().hex
    with connected(site) as line:
        whole(line, head_of(site, b"bye", extra={"X-Amzn-SageMaker-Inference-Id": name}), b"bye")
    answer = Answer(202, {}, json.dumps({"InferenceId": name}).encode())
    query = "SELECT count(*) FROM invocations_asyncinvocation WHERE inference_id = %s"
    with site.database() as connection:
        wait_for(lambda: (connection.execute(query, [name]).fetchone() or (0,))[0] == 1)
    assert bytes(row_of(site, answer)["body"]) == b"bye"
    assert site.post(PATH, b"x").status == 202


def test_an_endpoint_that_went_is_looked_at_anew_and_those_behind_are_not_confused(site: Site) -> None:
    gone = "express-gone"
    path = f"/endpoints/{gone}/async-invocations"
    site.publish(gone, failure_path="s3://bucket/failed")
    wait_for(lambda: site.post(path, b"warm up").status == 202)
    asked = head_of(site, b"too late", path=path) + b"too late"
    behind = head_of(site, b"behind", extra={"X-Amzn-SageMaker-Inference-Id": "behind"}) + b"behind"
    site.delete(gone)
    with connected(site) as line:
        line.sendall(asked + behind)
        told = answers(line, 2)
    assert [answer.status for answer in told] == [400, 202]
    assert told[1].json["InferenceId"] == "behind"
