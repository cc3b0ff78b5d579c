"""The client that carries calls, against the reference container and against servers that misbehave."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

from controlplane.routing.upstream import (
    HEADERS_LIMIT_BYTES,
    HIGH_WATER_BYTES,
    IDLE_SECONDS,
    BrokenResponse,
    ConnectFailed,
    TimedOut,
    Timeouts,
    UpstreamClient,
    UpstreamRequest,
)
from tests.controlplane.routing.peers import (
    TIMEOUTS,
    free_port,
    new_client,
    post,
    raw_server,
    reference_container,
    until,
)
from tests.fakes.clock import FakeClock

MIB = 1024 * 1024


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on an event loop of its own, of either kind: the gateway has uvloop, the workers have not."""

    def on_new_loop(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(main)

    return on_new_loop


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    with reference_container() as address:
        yield address


async def call(client: UpstreamClient, address: str, request: UpstreamRequest) -> tuple[int, bytes]:
    """One call, read to its end."""
    answer = await client.send(address, request, TIMEOUTS)
    try:
        return answer.status, await answer.read(100 * MIB)
    finally:
        answer.close()


async def one_call(address: str, request: UpstreamRequest) -> tuple[int, bytes]:
    """One call on a client of its own."""
    async with new_client() as client:
        return await call(client, address, request)


def idle_connections(client: UpstreamClient) -> int:
    """How many connections the client keeps."""
    return sum(len(each) for each in client._idle.values())


# What goes well.


def test_an_answer_comes_back_as_it_was_sent(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            answer = await client.send(container, post(b"hello"), TIMEOUTS)
            assert (answer.status, answer.header(b"content-type")) == (200, b"text/plain")
            assert answer.header(b"no-such-header") is None
            assert await answer.read(5) == b"hello"
            answer.close()

    run(talk())


def test_calls_in_a_row_share_a_connection_and_calls_at_once_do_not(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            for _ in range(5):
                assert await call(client, container, post(b"x")) == (200, b"x")
            assert idle_connections(client) == 1
            answers = await asyncio.gather(*(call(client, container, post(b"%d" % n)) for n in range(7)))
            assert [body for _, body in answers] == [b"%d" % n for n in range(7)]
            assert idle_connections(client) == 7

    run(talk())


def test_a_chunked_answer_is_put_together(run: Run, container: str) -> None:
    body = bytes(range(256)) * 40
    assert run(one_call(container, post(body, "chunked"))) == (200, body)


def test_a_large_request_and_a_large_answer_arrive_whole(run: Run, container: str) -> None:
    body = b"0123456789abcdef" * (8 * MIB // 16)
    _, said = run(one_call(container, post(body, "sha")))
    assert json.loads(said) == {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    assert run(one_call(container, post(mode=f"big:{8 * MIB}"))) == (200, b"x" * 8 * MIB)


def test_a_streamed_request_goes_out_as_its_headers_frame_it(run: Run, container: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"4\r\nabcd\r\n"
        yield b"0\r\n\r\n"

    request = UpstreamRequest(b"POST", b"/invocations", [(b"transfer-encoding", b"chunked")], pieces())
    assert run(one_call(container, request)) == (200, b"abcd" * 3)


@pytest.mark.parametrize("status", [204, 400, 404, 500, 503])
def test_any_status_is_an_answer(run: Run, container: str, status: int) -> None:
    said, _ = run(one_call(container, post(mode=f"http:{status}")))
    assert said == status


def test_a_redirect_is_handed_back_and_not_followed(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            answer = await client.send(container, post(mode="redirect:http://127.0.0.1:1/"), TIMEOUTS)
            assert (answer.status, answer.header(b"location")) == (302, b"http://127.0.0.1:1/")
            answer.close()

    run(talk())


def test_an_answer_without_a_length_ends_with_its_connection(run: Run) -> None:
    async def until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async def talk() -> None:
        async with raw_server(until_the_end) as address, new_client() as client:
            assert await call(client, address, post()) == (200, b"all of it")
            assert idle_connections(client) == 0

    run(talk())


def test_an_interim_answer_is_passed_over(run: Run) -> None:
    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async def talk() -> None:
        async with raw_server(twice) as address, new_client() as client:
            answer = await client.send(address, post(), TIMEOUTS)
            assert (answer.status, answer.headers) == (200, [(b"content-length", b"2")])
            answer.close()

    run(talk())


def test_a_head_request_has_an_answer_without_a_body(run: Run) -> None:
    async def only_the_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        await reader.read()

    async def talk() -> None:
        async with raw_server(only_the_head) as address:
            assert await one_call(address, UpstreamRequest(b"HEAD", b"/", [])) == (200, b"")

    run(talk())


# What a slow reader costs.


def test_a_slow_reader_of_a_large_answer_holds_little_of_it(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            answer = await client.send(container, post(mode=f"big:{64 * MIB}"), TIMEOUTS)
            incoming = answer._connection._incoming  # type: ignore[union-attr]
            await until(lambda: incoming.buffered > HIGH_WATER_BYTES)
            size = 0
            async for piece in answer.chunks():
                size += len(piece)
                assert incoming.buffered <= 2 * HIGH_WATER_BYTES
            assert size == 64 * MIB
            answer.close()

    run(talk())


def test_an_answer_given_up_half_way_spoils_no_later_call(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            for size in (HIGH_WATER_BYTES + 1, HIGH_WATER_BYTES + 40_000, 8 * MIB):
                answer = await client.send(container, post(mode=f"big:{size}"), TIMEOUTS)
                incoming = answer._connection._incoming  # type: ignore[union-attr]
                await until(lambda incoming=incoming: incoming.buffered > HIGH_WATER_BYTES)
                with pytest.raises(BrokenResponse, match="larger than 10 bytes"):
                    await answer.read(10)
                answer.close()
                assert await call(client, container, post(b"next")) == (200, b"next")

    run(talk())


# What goes wrong.


@pytest.mark.parametrize("mode", ["lie", "garbage", "cut-after:3", f"hdr:{HEADERS_LIMIT_BYTES}"])
def test_an_answer_that_lies_breaks_off_or_is_no_http_is_broken(run: Run, container: str, mode: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            with pytest.raises(BrokenResponse):
                await call(client, container, post(mode=mode))
            assert idle_connections(client) == 0
            assert await call(client, container, post(b"next")) == (200, b"next")

    run(talk())


def test_what_came_before_the_break_is_handed_on(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            answer = await client.send(container, post(mode="cut-after:3"), TIMEOUTS)
            pieces, got = answer.chunks(), b""
            while len(got) < len(b"chunk 0\n" * 3):
                got += await anext(pieces)
            assert got == b"chunk 0\nchunk 1\nchunk 2\n"
            with pytest.raises(BrokenResponse, match="before the answer was complete"):
                await anext(pieces)
            answer.close()

    run(talk())


def test_a_container_that_crashes_is_a_broken_answer(run: Run) -> None:
    with reference_container() as address, pytest.raises(BrokenResponse):
        run(one_call(address, post(mode="crash")))


@pytest.mark.parametrize("mode", ["hang:60", "delay:60"])
def test_no_answer_in_time_is_said_with_the_time(run: Run, container: str, mode: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            with pytest.raises(TimedOut, match=r"no answer within 0\.2 s"):
                await client.send(container, post(mode=mode), Timeouts(response=0.2))
            assert idle_connections(client) == 0

    run(talk())


def test_a_container_that_reads_no_request_times_out(run: Run) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def talk() -> None:
        async with raw_server(deaf) as address, new_client() as client:
            with pytest.raises(TimedOut):
                await client.send(address, post(b"x" * 64 * MIB), Timeouts(response=0.3))

    run(talk())


def test_a_header_without_end_is_cut_off_long_before_the_time_is_up(run: Run) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nx-endless: ")
        for _ in range(1000):
            writer.write(b"x" * HEADERS_LIMIT_BYTES)
            await writer.drain()
        await asyncio.sleep(60)

    async def talk() -> None:
        async with raw_server(endless) as address, new_client() as client:
            with pytest.raises(BrokenResponse, match="headers are larger"):
                await client.send(address, post(), Timeouts(response=20))

    run(talk())


def test_a_dead_port_is_a_failed_connection(run: Run) -> None:
    with pytest.raises(ConnectFailed, match="cannot be reached"):
        run(one_call(f"127.0.0.1:{free_port()}", post()))


def test_a_call_that_is_cancelled_gives_no_connection_back(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            task = asyncio.create_task(call(client, container, post(mode="delay:30")))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert idle_connections(client) == 0

    run(talk())


# What is kept.


def test_a_connection_idle_for_too_long_is_not_used_again(run: Run, container: str, fake_clock: FakeClock) -> None:
    async def talk() -> None:
        async with new_client() as client:
            await call(client, container, post())
            (first,) = client._idle[container]
            fake_clock.step(IDLE_SECONDS + 0.1)
            await call(client, container, post())
            assert first.is_closing
            assert idle_connections(client) == 1

    run(talk())


def test_connections_to_instances_that_nobody_calls_any_more_are_let_go(run: Run, fake_clock: FakeClock) -> None:
    async def talk(client: UpstreamClient) -> None:
        for _ in range(3):
            with reference_container() as address:
                await call(client, address, post())
                fake_clock.step(IDLE_SECONDS + 0.1)
        assert len(client._idle) == 1

    async def main() -> None:
        async with new_client() as client:
            await talk(client)

    run(main())


def test_a_connection_that_the_container_closed_is_not_used_again(run: Run) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async def talk() -> None:
        async with raw_server(once) as address, new_client() as client:
            for _ in range(3):
                assert await call(client, address, post()) == (200, b"ok")
                for kept in list(client._idle.get(address, ())):  # none, if the end was there with the answer
                    await until(lambda kept=kept: kept.is_closing)

    run(talk())


def test_bytes_that_nobody_asked_for_end_the_connection(run: Run) -> None:
    is_kept = asyncio.Event()

    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        await is_kept.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
        await writer.drain()
        await reader.read()

    async def talk() -> None:
        async with raw_server(talkative) as address, new_client() as client:
            assert await call(client, address, post()) == (200, b"ok")
            (kept,) = client._idle[address]
            is_kept.set()
            await until(lambda: kept.is_closing)
            assert await call(client, address, post()) == (200, b"ok")

    run(talk())


def test_what_follows_an_answer_in_one_piece_with_it_does_not_change_it(run: Run) -> None:
    async def talkative(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        writer.write(first + b"HTTP/1.1 500 Evil\r\nx-evil: 1\r\ncontent-length: 4\r\n\r\nevil")
        await writer.drain()

    async def talk() -> None:
        async with raw_server(talkative) as address, new_client() as client:
            assert await call(client, address, post()) == (200, b"ok")
            assert idle_connections(client) == 0

    run(talk())


# Without waiting.


def test_a_request_is_sent_at_once_on_a_kept_connection_only(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            assert client.begin(container, post(), lambda: None) is None
            await call(client, container, post())
            heard = asyncio.Event()
            exchange = client.begin(container, post(b"hello"), heard.set)
            assert exchange is not None
            assert idle_connections(client) == 0
            await until(lambda: exchange.incoming.complete)
            assert heard.is_set()
            assert (exchange.incoming.status, exchange.body()) == (200, b"hello")
            exchange.close()
            exchange.close()
            assert idle_connections(client) == 1

    run(talk())


def test_an_exchange_given_up_before_its_answer_gives_no_connection_back(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            await call(client, container, post())
            exchange = client.begin(container, post(mode="delay:30"), lambda: None)
            assert exchange is not None
            exchange.close()
            assert idle_connections(client) == 0

    run(talk())


def test_whoever_takes_over_an_exchange_reads_all_of_its_answer(run: Run, container: str) -> None:
    async def talk() -> None:
        async with new_client() as client:
            await call(client, container, post())
            calls: list[int] = []
            exchange = client.begin(container, post(b"x" * MIB), lambda: calls.append(1))
            assert exchange is not None
            await until(lambda: exchange.incoming.buffered > 0)
            answer, heard = exchange.awaited(), len(calls)
            assert await answer.read(2 * MIB) == b"x" * MIB
            assert len(calls) == heard
            answer.close()
            exchange.close()
            assert idle_connections(client) == 1

    run(talk())


def test_a_listener_hears_of_a_connection_that_breaks(run: Run) -> None:
    async def talk() -> None:
        with reference_container() as address:
            async with new_client() as client:
                await call(client, address, post())
                broke = asyncio.Event()
                exchange = client.begin(address, post(mode="crash"), broke.set)
                assert exchange is not None
                await until(broke.is_set)
                assert isinstance(exchange.incoming.error, BrokenResponse)
                exchange.close()

    run(talk())
