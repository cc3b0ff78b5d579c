"""The express way of InvokeEndpoint must not be told from the ordinary one, but by what it costs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.gateway.invoke import HELD_BYTES
from controlplane.routing.table import Capture, Target, VariantRoute
from tests.controlplane.gateway.lanes import (
    API_TOKEN,
    CHAT,
    GOOD,
    KEY,
    PATH,
    PAYLOAD_LIMIT_BYTES,
    call,
    comparable,
    lanes,
    read_answer,
    request,
    with_token,
)
from tests.controlplane.routing.peers import free_port, until

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


def run(talk: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(talk())


def answer(status: int = 200, body: bytes = b"ok", headers: bytes = b"", framing: str = "length") -> bytes:
    """What an instance writes."""
    head = b"HTTP/1.1 %d Whatever\r\n%b" % (status, headers)
    if framing == "chunked":
        frames = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        return head + b"transfer-encoding: chunked\r\n\r\n" + frames
    if framing == "close":
        return head + b"connection: close\r\n\r\n" + body
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


# Both ways.


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """What instances write: good and bad, whole and broken off, small and large, of every framing."""
    status = draw(st.sampled_from([200, 201, 204, 302, 400, 404, 429, 500, 503]))
    size = draw(st.sampled_from([0, 1, 300, 2000, 9000, HELD_BYTES, HELD_BYTES + 1, 2 * HELD_BYTES]))
    letter = draw(st.sampled_from([b"x", b"\xc3\xa9", b"\xff"]))
    headers = b"".join(
        draw(
            st.lists(
                st.sampled_from(
                    [
                        b"Content-Type: application/json\r\n",
                        b"content-type: second\r\n",
                        b"Content-Type: text/event-stream; charset=utf-8\r\n",
                        b"cache-control: no-store\r\n",
                        b"Retry-After: 7\r\n",
                        b"X-Amzn-SageMaker-Custom-Attributes: a=b\r\n",
                        b"x-private: of the container\r\n",
                        b"server: somebody\r\n",
                        b"date: yesterday\r\n",
                        b"X-Amzn-SageMaker-New-Session-Id: abc; Expires=2999-01-01T00:00:00Z\r\n",
                        b"X-Amzn-SageMaker-Closed-Session-Id: abc\r\n",
                    ]
                ),
                max_size=4,
            )
        )
    )
    said = answer(status, letter * (size // len(letter)), headers, draw(st.sampled_from(["length", "chunked", "close"])))
    shape = draw(st.sampled_from(["whole", "whole", "cut", "no HTTP", "interim", "two answers"]))
    if shape == "cut":
        return said[: draw(st.integers(0, min(len(said) - 1, 2000)))]
    if shape == "interim":
        return b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + said
    return {"whole": said, "no HTTP": b"SSH-2.0-nonsense\r\n", "two answers": said + GOOD}[shape]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """What clients send: good, badly signed, too large, with members of all kinds."""
    members = {
        ATTRIBUTES: ["a=b", "x" * 1025],
        "Content-Type": ["text/plain", "x" * 1025],
        "Accept": ["*/*"],
        "X-Amzn-SageMaker-Target-Variant": ["main", "other", "not a name"],
        "X-Amzn-SageMaker-Inference-Id": ["id-1", ""],
        "X-Amzn-SageMaker-Inference-Component": ["component"],
        "X-Amzn-SageMaker-Enable-Explanations": ["`false`"],
        "Connection": ["close", "keep-alive"],
    }
    named = draw(st.lists(st.sampled_from(sorted(members)), unique=True, max_size=3))
    return request(
        b"x" * draw(st.sampled_from([0, 1, 700, PAYLOAD_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES + 1])),
        {name: draw(st.sampled_from(members[name])) for name in named},
        path=draw(st.sampled_from([PATH] * 4 + ["/endpoints/nobody/invocations"])),
        secret=draw(st.sampled_from([KEY.secret] * 6 + ["wrong"])),
    )


@st.composite
def with_tokens(draw: st.DrawFn) -> bytes:
    """What clients send that have a token: to OpenAI's paths, and with an API token to the others too."""
    headers = draw(st.sampled_from([{}, {"X-Amzn-SageMaker-Target-Variant": "other"}, {ATTRIBUTES: "a=b"}]))
    size = draw(st.sampled_from([0, 2, PAYLOAD_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES + 1]))
    path = draw(st.sampled_from([CHAT] * 3 + [CHAT.replace("chat/", ""), CHAT.replace("chat/", "chat//"), PATH]))
    token = draw(st.sampled_from(["", "", API_TOKEN, "hr_of-nobody", "sagemaker-api-key-bad", "x"]))
    return with_token(path, b"x" * size, headers, token)


@settings(max_examples=100, deadline=None)
@given(asked=requests() | with_tokens(), said=answers())
def test_both_ways_ask_the_instance_and_answer_the_client_alike(asked: bytes, said: bytes) -> None:
    async def talk() -> None:
        async with lanes(said, says_goodbye=True) as site:
            # A large answer that breaks off is cut off, at whatever place.
            ordinary = comparable(await call(site.plain_port, asked))
            await site.quiet()
            by_ordinary, learnt = site.instance.requests[:], site.learnt()
            await site.warm()
            express = comparable(await call(site.express_port, asked))
            assert express == ordinary
            await site.quiet()
            assert (site.instance.requests, site.learnt()) == (by_ordinary, learnt)

    run(talk)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (answer(), 200),
        (answer(body=b"x" * HELD_BYTES), 200),
        (answer(framing="chunked"), 200),
        (answer(500, b"bad weights"), 424),
        (answer(400, b"x" * 100_000), 424),
        (b"SSH-2.0-nonsense\r\n", 424),
    ],
    ids=["whole", "as large as may be held", "in chunks", "its fault", "a long refusal", "no HTTP"],
)
def test_a_plain_call_makes_no_task(said: bytes, status: int) -> None:
    async def talk() -> None:
        async with lanes(said) as site:
            told = await call(site.express_port, request())
            assert told.startswith(b"HTTP/1.1 %d " % status)
            assert site.gateway.ordinary == 0
            assert len(site.instance.requests) == 1

    run(talk)


def test_calls_that_need_more_than_memory_go_the_ordinary_way() -> None:
    async def talk() -> None:
        async with lanes(GOOD) as site:
            for asked in (
                request(path=f"{PATH}?a=b"),
                request(path="/endpoints/nobody/invocations"),
                request(access_key_id="AKIANOBODY"),
                request(headers={"X-Amzn-SageMaker-Session-Id": "abc"}),
                request(b"x" * (PAYLOAD_LIMIT_BYTES + 1)),
            ):
                await call(site.express_port, asked)
            assert site.gateway.ordinary == 5

    run(talk)


def test_what_is_recorded_or_copied_goes_the_ordinary_way() -> None:
    async def talk() -> None:
        async with lanes(GOOD) as site:
            capture = Capture("s3://bucket/captured", 100, takes_input=True, takes_output=True)
            site.publish(VariantRoute("main", 1.0, "RANDOM", (site.target,), capture=capture))
            assert (await call(site.express_port, request())).endswith(b"ok")
            shadow = VariantRoute("shadow", 1.0, "RANDOM", (site.target,))
            site.publish(VariantRoute("main", 1.0, "RANDOM", (site.target,)), shadows=(shadow,))
            assert (await call(site.express_port, request())).endswith(b"ok")
            assert site.gateway.ordinary == 2

    run(talk)


def test_a_session_that_an_answer_opens_is_remembered() -> None:
    async def talk() -> None:
        opens = b"x-amzn-sagemaker-new-session-id: abc; Expires=2999-01-01T00:00:00Z\r\n"
        async with lanes(answer(headers=opens)) as site:
            assert b"new-session-id: abc" in await call(site.express_port, request())
            assert site.learnt()["sessions"] == [("endpoint-id", "abc")]

    run(talk)


@pytest.mark.parametrize("token", ["", API_TOKEN], ids=["of the key's", "an API token"])
def test_a_plain_completion_makes_no_task(token: str) -> None:
    async def talk() -> None:
        async with lanes(GOOD) as site:
            assert (await call(site.express_port, with_token(CHAT, token=token))).endswith(b"ok")
            assert site.gateway.ordinary == 0
            assert site.instance.requests[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")

    run(talk)


def test_a_stream_goes_out_as_it_comes() -> None:
    async def talk() -> None:
        said = answer(body=b"data: 1\n\n", headers=b"content-type: text/event-stream\r\n", framing="chunked")
        async with lanes(said[: said.index(b"0\r\n\r\n")]) as site:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.express_port)
            writer.write(with_token(CHAT))
            assert b"cache-control: no-cache" in await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"data: 1\n\n")
            assert site.in_flight == 1
            writer.close()
            await until(lambda: site.in_flight == 0)

    run(talk)


# Connections to instances.


def test_a_long_refusal_is_not_waited_for() -> None:
    async def talk() -> None:
        async with lanes(answer(500, b"x" * 1_000_000)[:20_000]) as site:
            told = await call(site.express_port, request())
            assert b'"OriginalStatusCode":500' in told.replace(b" ", b"")
            await until(lambda: site.instance.lost == 1)

    run(talk)


def test_an_instance_without_a_kept_connection_is_chosen_all_the_same() -> None:
    async def talk() -> None:
        async with lanes(GOOD) as site:
            site.gateway.carrier.upstream.close()
            assert (await call(site.express_port, request())).endswith(b"ok")
            await site.warm()
            assert (await call(site.express_port, request())).endswith(b"ok")
            assert site.gateway.ordinary == 0
            assert site.in_flight == 0

    run(talk)


def test_an_instance_that_cannot_be_reached_is_passed_over_for_another() -> None:
    async def talk() -> None:
        async with lanes(GOOD) as site:
            dead = Target("instance-2", f"127.0.0.1:{free_port()}", "ml.m5.large", False)
            site.publish(VariantRoute("main", 1.0, "RANDOM", (site.target, dead)))
            told = [await call(site.express_port, request()) for _ in range(20)]
            assert all(each.endswith(b"ok") for each in told)
            assert site.gateway.carrier.balancer.in_flight.busy() == {}

    run(talk)


def test_a_broken_connection_is_not_kept_and_the_call_is_not_sent_again() -> None:
    async def talk() -> None:
        async with lanes(answer(body=b"whole")[:-2], says_goodbye=True) as site:
            told = await call(site.express_port, request())
            assert told.startswith(b"HTTP/1.1 424 ")
            assert b"gave no proper answer" in told
            assert len(site.instance.requests) == 1

    run(talk)


def test_an_instance_that_keeps_silent_costs_its_time_and_its_connection() -> None:
    async def talk() -> None:
        async with lanes(None, HEADRACE_INVOCATION_TIMEOUT_SECONDS="2") as site:
            told = await call(site.express_port, request())
            assert told.startswith(b"HTTP/1.1 424 ")
            assert b"timed out while waiting for a response" in told
            await until(lambda: site.instance.lost == 1)
            assert site.in_flight == 0

    run(talk)


# The client's connection.


def test_a_client_that_hangs_up_ends_its_call_and_says_nothing_about_the_instance() -> None:
    async def talk() -> None:
        async with lanes(None) as site:
            site.gateway.carrier.balancer.failed(site.target.instance_id, 0.0)
            _, writer = await asyncio.open_connection("127.0.0.1", site.express_port)
            writer.write(request())
            await until(lambda: site.in_flight == 1)
            writer.close()
            await until(lambda: site.instance.lost == 1)
            assert site.in_flight == 0
            learnt = site.learnt()
            assert learnt["health"] == {site.target.instance_id: 1}
            assert (learnt["calls"], learnt["errors_5xx"]) == (1, 0)

    run(talk)


def test_requests_sent_without_waiting_are_answered_in_their_order() -> None:
    async def talk() -> None:
        said = [answer(body=b"%d" % number) for number in range(4)]
        async with lanes(*said) as site:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.express_port)
            unsigned = b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n"
            writer.write(request(b"a") + request(b"b") + unsigned + request(b"c") + request(secret="wrong"))
            told = [await read_answer(reader) for _ in range(5)]
            assert [each.split(b" ")[1] for each in told] == [b"200", b"200", b"200", b"200", b"403"]
            assert [told[place][-1:] for place in (0, 1, 3)] == [b"0", b"1", b"2"]
            writer.close()

    run(talk)


def test_a_connection_serves_one_call_after_the_other_until_it_is_to_be_closed() -> None:
    async def talk() -> None:
        async with lanes(GOOD) as site:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.express_port)
            for _ in range(3):
                writer.write(request())
                assert (await read_answer(reader)).endswith(b"ok")
            writer.write(request(headers={"Connection": "close"}))
            assert b"connection: close" in await read_answer(reader)
            assert await reader.read() == b""
            assert site.gateway.ordinary == 0
            writer.close()

    run(talk)


def test_a_large_answer_is_passed_on_as_it_comes_and_counted_until_its_end() -> None:
    async def talk() -> None:
        body = b"x" * (20 * HELD_BYTES)
        async with lanes(answer(body=body)) as site:
            reader, writer = await asyncio.open_connection("127.0.0.1", site.express_port)
            writer.write(request())
            await until(lambda: site.in_flight == 1)
            told = await read_answer(reader)
            assert told.endswith(body)
            await until(lambda: site.in_flight == 0)
            writer.write(request())
            assert await read_answer(reader)
            writer.close()

    run(talk)
