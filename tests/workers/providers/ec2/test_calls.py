"""Calls that do not end as EC2's do: silence, garbage, pages without end."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clock import FakeClock
from tests.workers.providers.ec2.site import NEEDED, request_for
from workers.providers.base import CALL_TIMEOUT_SECONDS
from workers.providers.ec2 import calls
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.errors import ErrorKind, ProviderError


@pytest.fixture(autouse=True)
def anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of nobody."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that answers everything with this."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def kind_of_launch(url: str, tmp_path: Path) -> ErrorKind:
    provider = Ec2Provider(tmp_path, {**NEEDED, "HEADRACE_EC2_ENDPOINT_URL": url})
    with pytest.raises(ProviderError) as caught:
        provider.launch(request_for())
    return caught.value.kind


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"<html>not what you wanted"),
        (200, b"<RunInstancesResponse/>"),
        (502, b"<html>bad gateway</html>"),
        (500, b""),
        (503, b"<Response><Errors><Error><Code>New</Code></Error></Errors></Response>"),
    ],
)
def test_an_answer_that_tells_nothing_is_ambiguous(status: int, body: bytes, tmp_path: Path) -> None:
    with answering(status, body) as url:
        assert kind_of_launch(url, tmp_path) is ErrorKind.AMBIGUOUS


def test_silence_is_ambiguous_once_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "READ_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert kind_of_launch(f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path) is ErrorKind.AMBIGUOUS


def test_a_listing_gives_up_when_its_pages_take_too_long(fake_clock: FakeClock) -> None:
    asked = []

    def slow(**parameters: Any) -> Mapping[str, Any]:
        asked.append(parameters)
        assert len(asked) <= CALL_TIMEOUT_SECONDS
        fake_clock.step(1)
        return {"Reservations": [{}], "NextToken": "more"}

    with pytest.raises(ProviderError) as caught:
        calls.pages(slow, "Reservations")
    assert caught.value.kind is ErrorKind.THROTTLED
