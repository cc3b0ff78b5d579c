"""Clients that stop in the midst of a request: they are cut off in time, and keep nobody else waiting meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, closing
from socket import create_connection

import pytest

from controlplane.core import clock
from controlplane.gateway import http, protocol
from tests.controlplane.gateway.lanes import GOOD, PATH, Lanes, call, lanes, read_answer, request
from tests.controlplane.gateway.site import Container, Site

MANY = 300
WITHIN_SECONDS = 20
"""Less than a head or a body has where a test does not shorten it."""

HALF = request(b"x" * 100)[:-99]
"""A whole head, and a byte of the body."""


async def sent(port: int, data: bytes) -> bytes:
    """All that comes back on a connection on which this is sent and nothing more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        writer.write(data)
        async with asyncio.timeout(WITHIN_SECONDS):
            return await reader.read()


@pytest.mark.parametrize("port", ["express_port", "plain_port"])
@pytest.mark.parametrize("data", [b"", b"POST / HT", HALF[:200]], ids=["nothing", "a line", "fields"])
def test_a_head_that_does_not_come_to_its_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, port: str, data: bytes) -> None:
    assert protocol.HEAD_SECONDS == 30.0
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)

    async def test(gateway: Lanes) -> None:
        began = clock.monotonic()
        assert await sent(getattr(gateway, port), data) == b""
        assert clock.monotonic() - began > 0.15

    run(test)


@pytest.mark.parametrize("port", ["express_port", "plain_port"])
@pytest.mark.parametrize("expects", [False, True], ids=["silent", "waits for 100"])
def test_a_body_that_does_not_come_to_its_end_is_answered_and_cut_off(
    monkeypatch: pytest.MonkeyPatch, port: str, expects: bool
) -> None:
    assert http.BODY_SECONDS == 120.0
    monkeypatch.setattr(http, "BODY_SECONDS", 0.2)
    data = HALF.replace(b"\r\n\r\nx", b"\r\nExpect: 100-continue\r\n\r\n") if expects else HALF

    async def test(gateway: Lanes) -> None:
        answer = await sent(getattr(gateway, port), data)
        final = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert (answer != final) == expects
        assert final.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in final
        assert b"RequestTimeout" in final
        assert gateway.instance.requests == []
        assert (await call(getattr(gateway, port), request())).startswith(b"HTTP/1.1 200 ")

    run(test)


def test_the_second_request_of_a_connection_has_no_more_time_for_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)

    async def test(gateway: Lanes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.express_port)
        with closing(writer):
            writer.write(request() + HALF[:200])
            assert (await read_answer(reader)).startswith(b"HTTP/1.1 200 ")
            async with asyncio.timeout(WITHIN_SECONDS):
                assert await reader.read() == b""

    run(test)


def run(test: Callable[[Lanes], "asyncio.Future[None]"]) -> None:
    """With a gateway in this process, whose instance answers."""

    async def work() -> None:
        async with lanes(GOOD) as gateway:
            await test(gateway)

    asyncio.run(work())


def test_hundreds_of_half_sent_bodies_hold_nobody_up(site: Site, chatty: Container) -> None:
    path = PATH.replace("lanes", "chatty")
    half = site.raw(path, b"x" * 100)[:-99]
    with ExitStack() as held:
        for _ in range(MANY):
            held.enter_context(closing(create_connection(("127.0.0.1", site.port)))).sendall(half)
        for _ in range(5):
            assert site.post(path, b"mine").body == b"mine"
    assert len(chatty.received()) == 5
