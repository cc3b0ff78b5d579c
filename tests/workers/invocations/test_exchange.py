"""A request and its answer over a kept connection, with real sockets."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from controlplane.routing.upstream import HIGH_WATER_BYTES, BrokenResponse, TimedOut, UpstreamClient
from tests.controlplane.routing.peers import PATIENCE_SECONDS, TIMEOUTS, Talk, new_client, post, raw_server
from workers.invocations.exchange import exchange

FIRST = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst"


def do(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def then(second: Talk) -> Talk:
    """Answers a connection's first request, then does as `second` says with the next one."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(FIRST)
        await reader.readuntil(b"\r\n\r\n")
        await second(reader, writer)

    return talk


def says(*parts: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return talk


async def connected(client: UpstreamClient, address: str) -> None:
    """Have a connection that is kept."""
    answer = await client.send(address, post(), TIMEOUTS)
    assert await answer.read(100) == b"first"
    answer.close()


def test_without_a_kept_connection_nothing_is_sent() -> None:
    async def work() -> None:
        async with raw_server(says(FIRST)) as address, new_client() as client:
            assert await exchange(client, address, post(), PATIENCE_SECONDS) is None

    do(work())


def test_a_small_answer_is_there_whole() -> None:
    async def work() -> None:
        answer = b"HTTP/1.1 202 Accepted\r\ncontent-type: a/b\r\ncontent-length: 6\r\n\r\n"
        async with raw_server(then(says(answer, b"sec", b"ond"))) as address, new_client() as client:
            await connected(client, address)
            done = await exchange(client, address, post(b"x"), PATIENCE_SECONDS)
            assert done is not None
            done.close()
            assert (done.incoming.status, done.body(), done.incoming.complete) == (202, b"second", True)
            assert (b"content-type", b"a/b") in done.incoming.headers

    do(work())


def test_a_large_answer_is_read_on_by_whoever_began() -> None:
    body = b"y" * (3 * HIGH_WATER_BYTES)

    async def work() -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
        async with raw_server(then(says(head, body))) as address, new_client() as client:
            await connected(client, address)
            done = await exchange(client, address, post(), PATIENCE_SECONDS)
            assert done is not None
            assert not done.incoming.complete
            answer = done.awaited()
            assert await answer.read(len(body)) == body
            answer.close()

    do(work())


def test_an_answer_that_breaks_off_is_an_error() -> None:
    async def work() -> None:
        async with (
            raw_server(then(says(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"))) as address,
            new_client() as client,
        ):
            await connected(client, address)
            with pytest.raises(BrokenResponse):
                await exchange(client, address, post(), PATIENCE_SECONDS)

    do(work())


def test_an_answer_that_does_not_come_is_given_up_in_time_and_its_connection_with_it() -> None:
    async def work() -> None:
        ended = asyncio.Event()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            ended.set()

        async with raw_server(then(wait)) as address, new_client() as client:
            await connected(client, address)
            with pytest.raises(TimedOut, match=r"within 0\.05 s"):
                await exchange(client, address, post(), 0.05)
            await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)

    do(work())
