"""The reference container honours the container contract, and every fault it offers is the fault it names."""

import hashlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.sites import PATIENCE_SECONDS, ROOT
from tests.contract.waiting import wait
from tests.controlplane.routing.peers import free_port
from workers.providers.ping import ping

SERVER = ROOT / "deploy" / "images" / "reference" / "server.py"
MODE = "X-Amzn-SageMaker-Custom-Attributes"
HANG_SECONDS = 120


class Container:
    """A running reference container."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.address = f"127.0.0.1:{port}"

    def post(self, body: bytes = b"body", mode: str = "", path: str = "/invocations") -> tuple[int, bytes, Any]:
        """Status, body and headers of one call."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_SECONDS)
        try:
            connection.request("POST", path, body, {MODE: f"mode={mode}"} if mode else {})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    def chat(self, **members: Any) -> tuple[int, bytes, Any]:
        """A chat completion of `hello old friend`."""
        messages = [{"role": "user", "content": "hello old friend"}]
        return self.post(json.dumps({"model": "m", "messages": messages, **members}).encode(), path="/v1/chat/completions")


@contextmanager
def running(**environment: str) -> Iterator[Container]:
    """A container that listens."""
    port = free_port()
    env = {"SAGEMAKER_BIND_TO_PORT": str(port), **environment}
    process = subprocess.Popen([sys.executable, "-S", "-E", str(SERVER)], env=env, stderr=subprocess.PIPE)
    try:
        wait(lambda: is_listening(port))
        yield Container(process, port)
    finally:
        process.kill()
        _, complaints = process.communicate()
        assert complaints == b""


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    with running(CHAOS_NAME="one") as made:
        yield made


def test_echo_answers_with_what_it_was_sent(container: Container) -> None:
    body = bytes(range(256)) * 1000
    status, answer, headers = container.post(body)
    assert (status, answer, headers["X-Chaos-Name"]) == (200, body, "one")


def test_sha_answers_with_length_and_digest(container: Container) -> None:
    digest = {"length": 4, "sha256": hashlib.sha256(b"body").hexdigest()}
    assert json.loads(container.post(mode="sha")[1]) == digest


@pytest.mark.parametrize("body", [b"#mode=http:418\nrest", b'{"chaos": "http:418"}'])
def test_the_mode_may_stand_in_the_body(container: Container, body: bytes) -> None:
    assert container.post(body)[0] == 418


@pytest.mark.parametrize(
    ("mode", "status", "length"),
    [
        ("http:500", 500, 17),
        ("http:500:empty", 500, 0),
        ("http:503:html", 503, 28),
        ("http:500:nonutf8", 500, 256),
        ("http:500:10MB", 500, 10_000_000),
        ("big:3000000", 200, 3_000_000),
        ("chunked", 200, 4),
        ("redirect:http://127.0.0.1:1/", 302, 0),
        ("delay:0.05", 200, 4),
        ("nonsense", 400, 40),
        ("http:many", 400, 50),
    ],
)
def test_an_answer_has_the_status_and_length_that_were_asked_for(
    container: Container, mode: str, status: int, length: int
) -> None:
    answer = container.post(mode=mode)
    assert (answer[0], len(answer[1])) == (status, length)


def test_a_header_can_be_made_large(container: Container) -> None:
    assert container.post(mode="hdr:5000")[2]["X-Filler"] == "h" * 5000


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("cut-after:2", http.client.IncompleteRead),
        ("lie", http.client.IncompleteRead),
        ("garbage", http.client.BadStatusLine),
    ],
)
def test_a_broken_answer_is_broken_as_it_says(container: Container, mode: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        container.post(mode=mode)


def test_crash_ends_the_process_without_an_answer() -> None:
    with running() as container:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            container.post(mode="crash")
        assert container.process.wait(PATIENCE_SECONDS) == 1


def test_a_connection_is_kept_alive(container: Container) -> None:
    connection = http.client.HTTPConnection(container.address, timeout=PATIENCE_SECONDS)
    for _ in range(3):
        connection.request("POST", "/invocations", b"x")
        assert connection.getresponse().read() == b"x"
        assert connection.sock is not None
    connection.close()


def test_a_body_may_be_chunked_and_may_wait_for_permission(container: Container) -> None:
    host, port = container.address.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(
            b"POST /invocations HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"2\r\nab\r\n3;x=y\r\ncde\r\n0\r\nTrailer: t\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.endswith(b"Content-Length: 5\r\nX-Chaos-Name: one\r\n\r\nabcde")


def test_a_chat_completion_repeats_the_last_message(container: Container) -> None:
    status, body, _ = container.chat()
    answer = json.loads(body)
    assert (status, answer["object"], answer["model"]) == (200, "chat.completion", "m")
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hello old friend"}
    assert answer["usage"]["total_tokens"] == 6


def test_a_streamed_chat_completion_comes_word_by_word_and_ends_with_done(container: Container) -> None:
    _, body, headers = container.chat(stream=True, stream_options={"include_usage": True})
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]
    events = [json.loads(line) for line in lines[:-1]]
    assert (headers["Content-Type"], lines[-1]) == ("text/event-stream", b"[DONE]")
    choices = [event["choices"][0] for event in events if event["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "hello old friend"
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["stop"]
    assert events[-1]["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"messages": []}', b"\xff"])
def test_a_chat_that_makes_no_sense_is_a_400(container: Container, body: bytes) -> None:
    assert container.post(body, path="/v1/chat/completions")[0] == 400


def test_other_paths_are_not_found(container: Container) -> None:
    assert container.post(path="/admin")[0] == 404


@pytest.mark.parametrize(
    ("word", "detail"),
    [
        ("200", ""),
        ("404", "/ping answered 404"),
        ("500", "/ping answered 500"),
        ("302", "/ping answered 302"),
        ("close", "/ping closed the connection"),
        ("hang", "/ping did not answer within 0.3 s"),
        ("503-for:60", "/ping answered 503"),
        ("503-for:0", ""),
        ("200-after:60", "/ping answered 503"),
        ("200-after:0", ""),
    ],
)
def test_ping_answers_as_it_is_told(word: str, detail: str) -> None:
    with running(CHAOS_PING=word) as container:
        health = ping(container.address, 0.3 if word == "hang" else PATIENCE_SECONDS)
    assert (health.is_healthy, health.detail) == (detail == "", detail)


def test_ping_can_be_changed_while_it_runs() -> None:
    with running() as container:
        assert ping(container.address, PATIENCE_SECONDS).is_healthy
        container.post(mode="ping:500")
        assert ping(container.address, PATIENCE_SECONDS).detail == "/ping answered 500"


def test_it_can_be_told_to_fail_every_call_and_to_stop_doing_so() -> None:
    with running() as container:
        assert container.post(mode="from-now:http:500:html")[0] == 200
        assert container.post(mode="echo")[0] == 500
        assert ping(container.address, PATIENCE_SECONDS).is_healthy
        assert container.post(mode="from-now:")[0] == 200
        assert container.post()[:2] == (200, b"body")


def test_it_can_leave_at_once_with_a_code() -> None:
    env = {"CHAOS_START": "exit:7"}
    done = subprocess.run([sys.executable, "-S", "-E", str(SERVER)], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (7, b"reference container: told to leave with code 7\n")


def test_sigterm_ends_it_at_once_whatever_is_under_way() -> None:
    with running() as container:
        host, port = container.address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST /invocations HTTP/1.1\r\nContent-Length: 15\r\n\r\n#mode=hang:%d\n" % HANG_SECONDS)
            connection.setblocking(False)
            started = time.monotonic()
            container.process.terminate()
            assert container.process.wait(HANG_SECONDS) == 0
    assert time.monotonic() - started < HANG_SECONDS


def test_the_journal_tells_how_each_request_ended(tmp_path: Path) -> None:
    sink = tmp_path / "journal"
    with running(CHAOS_SINK=str(sink)) as container:
        container.post(b"abc")
        with pytest.raises(http.client.IncompleteRead):
            container.post(mode="lie")
        abort(container)
        ended = wait(lambda: [line for line in lines_of(sink) if line["event"] != "received"][2:] or None)
    lines = lines_of(sink)
    assert [line["event"] for line in lines] == ["received", "ok", "received", "cut", "received", "client-abort"]
    assert (lines[0]["length"], lines[0]["sha256"]) == (3, hashlib.sha256(b"abc").hexdigest())
    assert len(ended) == 1


def abort(container: Container) -> None:
    """Ask for something slow and leave."""
    host, port = container.address.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /invocations HTTP/1.1\r\nContent-Length: 16\r\n\r\n#mode=delay:0.2\n")


def lines_of(sink: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sink.read_text().splitlines()]
