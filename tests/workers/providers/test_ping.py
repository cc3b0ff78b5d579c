"""`/ping` against containers that answer well, badly, slowly or not at all."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.controlplane.routing.peers import PATIENCE_SECONDS, free_port
from workers.providers.base import Health
from workers.providers.ping import ping


@contextmanager
def container(*parts: bytes, pause_seconds: float = 0.0) -> Iterator[str]:
    """Answers one request with these parts, then closes."""
    done = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                for part in parts:
                    connection.sendall(part)
                    done.wait(pause_seconds)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        done.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 200 OK\n\n"])
def test_200_is_healthy(answer: bytes) -> None:
    with container(answer) as address:
        assert ping(address, PATIENCE_SECONDS) == Health(True)


def test_a_large_body_is_not_waited_for() -> None:
    with container(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n", b"x" * 10_000_000) as address:
        assert ping(address, PATIENCE_SECONDS) == Health(True)


def test_a_status_line_may_come_in_pieces() -> None:
    with container(b"HTTP/1", b".1 20", b"0 OK\r\n", pause_seconds=0.02) as address:
        assert ping(address, PATIENCE_SECONDS) == Health(True)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"HTTP/1.1 503 Busy\r\n\r\n", "/ping answered 503"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "/ping answered 302"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "/ping answered something that is not HTTP"),
        (b"\x00\x01 nonsense\r\n", "/ping answered something that is not HTTP"),
        (b"HTTP/1.1 200", "/ping answered something that is not HTTP"),
        (b"x" * 100_000, "/ping answered something that is not HTTP"),
        (b"", "/ping closed the connection"),
    ],
)
def test_anything_else_is_sick_and_says_how(answer: bytes, detail: str) -> None:
    with container(answer) as address:
        assert ping(address, PATIENCE_SECONDS) == Health(False, detail)


def test_silence_is_sick_after_the_time_is_over() -> None:
    with container(b"", pause_seconds=3600.0) as address:
        assert ping(address, 0.2) == Health(False, "/ping did not answer within 0.2 s")


def test_one_byte_at_a_time_does_not_stretch_the_time() -> None:
    started = time.monotonic()
    with container(*[b"H"] * 1000, pause_seconds=0.05) as address:
        assert ping(address, 0.3) == Health(False, "/ping did not answer within 0.3 s")
    assert time.monotonic() - started < 25


def test_nobody_there_is_sick() -> None:
    assert ping(f"127.0.0.1:{free_port()}", PATIENCE_SECONDS) == Health(False, "/ping failed: ConnectionRefusedError")


@pytest.mark.parametrize("address", ["", "nonsense", ":80", "host:", "127.0.0.1:http"])
def test_no_address_is_sick(address: str) -> None:
    assert ping(address, 1.0) == Health(False, "it has no address yet")


def test_an_impossible_port_is_sick() -> None:
    assert not ping("127.0.0.1:99999", 1.0).is_healthy
