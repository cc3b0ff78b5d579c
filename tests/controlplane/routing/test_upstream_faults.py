"""Instances that answer, or go away, before the request is whole."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvloop

from controlplane.routing.sockets import IDLE_SECONDS, PROBE_SECONDS, PROBES
from controlplane.routing.upstream import BrokenResponse, Timeouts, UpstreamRequest
from tests.controlplane.routing.peers import new_client, raw_server

PIECE = b"x" * 256 * 1024
PIECES = 200
"""Far more than two sockets hold."""

PROBING = [
    (name, value)
    for name, value in (("TCP_KEEPIDLE", IDLE_SECONDS), ("TCP_KEEPINTVL", PROBE_SECONDS), ("TCP_KEEPCNT", PROBES))
    if hasattr(socket, name)
]

PATIENT = Timeouts(connect=60.0, response=60.0)
"""Longer than a test may take: nothing here ends because time does."""


class Pieces:
    """A body in pieces, counted as they are asked for."""

    taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            self.taken += 1
            yield PIECE


def streamed(pieces: Pieces) -> UpstreamRequest:
    length = b"%d" % (PIECES * len(PIECE))
    return UpstreamRequest(b"POST", b"/invocations", [(b"content-length", length)], aiter(pieces))


def whole() -> UpstreamRequest:
    return UpstreamRequest(b"POST", b"/invocations", [], PIECE * PIECES)


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say no, and neither read nor hang up."""
    del reader
    writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
    await asyncio.Event().wait()


@pytest.mark.parametrize("is_streamed", [True, False], ids=["in pieces", "whole"])
def test_a_refusal_is_heard_although_nobody_reads_the_rest(is_streamed: bool) -> None:
    async def main() -> tuple[int, bytes, int]:
        pieces = Pieces()
        async with asyncio.timeout(50), raw_server(refuse) as address, new_client() as client:
            answer = await client.send(address, streamed(pieces) if is_streamed else whole(), PATIENT)
            body = await answer.read(100)
            answer.close()
            assert client._take(address) is None  # its connection has half a request on it
            return answer.status, body, pieces.taken

    status, body, taken = asyncio.run(main())
    assert (status, body) == (413, b"no")
    assert taken < PIECES


def test_a_request_of_which_half_was_sent_is_not_followed_by_another_on_its_connection() -> None:
    """The instance takes what comes next for the rest of it."""
    opened = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        if opened == 1:
            await refuse(reader, writer)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext")
        await writer.drain()

    async def main() -> bytes:
        async with asyncio.timeout(50), raw_server(talk) as address, new_client() as client:
            refused = await client.send(address, streamed(Pieces()), PATIENT)
            await refused.read(100)
            refused.close()
            answer = await client.send(address, UpstreamRequest(b"POST", b"/", [], b"small"), PATIENT)
            try:
                return await answer.read(100)
            finally:
                answer.close()

    assert asyncio.run(main()) == b"next"
    assert opened == 2


def test_a_connection_that_is_lost_ends_the_sending() -> None:
    """A payload of a gigabyte is not read from the disk for nobody."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PIECE))
        writer.transport.abort()

    async def main() -> int:
        pieces = Pieces()
        async with asyncio.timeout(50), raw_server(hang_up) as address, new_client() as client:
            with pytest.raises(BrokenResponse):
                await client.send(address, streamed(pieces), PATIENT)
        return pieces.taken

    assert asyncio.run(main()) < PIECES


def test_a_good_answer_that_begins_early_gets_the_rest_of_its_request() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n")
        await reader.readexactly(PIECES * len(PIECE))
        writer.write(b"all")
        await writer.drain()

    async def main() -> bytes:
        async with asyncio.timeout(50), raw_server(echo) as address, new_client() as client:
            answer = await client.send(address, streamed(Pieces()), PATIENT)
            body = await answer.read(100)
            answer.close()
            return body

    assert asyncio.run(main()) == b"all"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_the_system_looks_after_a_connection_that_is_silent(new_loop: Any) -> None:
    """The call may wait for an hour; a host that has vanished is noticed within a minute."""
    found: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()

    async def main() -> None:
        async with raw_server(answer) as address, new_client() as client:
            done = await client.send(address, UpstreamRequest(b"POST", b"/", [], b"x"), PATIENT)
            assert done._connection is not None
            opened = done._connection._transport.get_extra_info("socket")
            found.append(opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            found.extend(opened.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name, _ in PROBING)
            await done.read(10)
            done.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    is_on, *probing = found
    assert is_on == 1
    assert probing == [value for _, value in PROBING]
    assert IDLE_SECONDS + PROBE_SECONDS * PROBES <= 60


@pytest.mark.parametrize("is_express", [True, False], ids=["begun", "sent"])
def test_after_an_answer_that_was_broken_off_no_kept_connection_to_the_instance_is_trusted(is_express: bool) -> None:
    """What an instance that ends still holds open would cost the next call."""
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = b"GET /ping"  # of each connection's first request, which is read already
        while head.startswith(b"GET /ping"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            head = await reader.readuntil(b"\r\n\r\n")

    ping, crash = UpstreamRequest(b"GET", b"/ping", [], b""), UpstreamRequest(b"GET", b"/crash", [], b"")

    async def main() -> None:
        async with asyncio.timeout(50), raw_server(talk) as address, new_client() as client:
            answers = [await client.send(address, ping, PATIENT) for _ in range(2)]  # at once, so over two connections
            for answer in answers:
                assert await answer.read(10) == b"ok"
                answer.close()
            if is_express:
                heard = asyncio.Event()
                exchange = client.begin(address, crash, heard.set)
                await heard.wait()
                assert exchange is not None
                exchange.close()
            else:
                with pytest.raises(BrokenResponse):
                    await client.send(address, crash, PATIENT)
            assert client.begin(address, ping, lambda: None) is None
            answer = await client.send(address, ping, PATIENT)
            assert await answer.read(10) == b"ok"
            answer.close()

    asyncio.run(main())
    assert connections == 3
