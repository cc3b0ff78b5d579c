"""The engine simulator as a process."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from controlplane.core import clock
from controlplane.routing.engine_load import parse
from tests.controlplane.gateway.engines import EngineProcess, engine
from tests.controlplane.gateway.site import wait_for

FAST = "0.02"
CHAT = {"messages": [{"role": "user", "content": "hello " * 50}], "max_tokens": 5}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., EngineProcess]]:
    with ExitStack() as stack:
        yield lambda **env: stack.enter_context(engine(tmp_path, **{"ENGINE_TIME_SCALE": FAST, **env}))


def post(running: EngineProcess, path: str, asked: Any) -> tuple[int, bytes]:
    connection = HTTPConnection(running.address, timeout=30)
    try:
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        connection.request("POST", path, body)
        answer: HTTPResponse = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def events(stream: bytes) -> list[Any]:
    """The events of a stream; its end is told by a word."""
    lines = [line.removeprefix(b"data: ") for line in stream.split(b"\n\n") if line.startswith(b"data: ")]
    assert lines.pop() == b"[DONE]"
    return [json.loads(line) for line in lines]


def gauge(running: EngineProcess, name: str) -> float:
    line = next(line for line in running.page("/metrics").splitlines() if line.startswith(name + "{"))
    return float(line.split()[-1])


def test_a_chat_comes_whole_or_as_events_with_the_same_words(start: Callable[..., EngineProcess]) -> None:
    running = start()
    status, whole = post(running, "/v1/chat/completions", CHAT)
    answer = json.loads(whole)
    assert (status, answer["usage"]["completion_tokens"]) == (200, 5)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    _, streamed = post(running, "/v1/chat/completions", {**CHAT, **options})
    *parts, last = events(streamed)
    said = "".join(part["choices"][0]["delta"].get("content", "") for part in parts)
    assert said == answer["choices"][0]["message"]["content"]
    assert last["usage"] == {**answer["usage"], "prompt_tokens_details": {"cached_tokens": 64}}


def test_invocations_take_chats_prompts_and_anything_else(start: Callable[..., EngineProcess]) -> None:
    running = start()
    for asked, kind in ((CHAT, "chat.completion"), ({"prompt": "x"}, "text_completion"), (b"\xff\x00", "text_completion")):
        status, body = post(running, "/invocations", asked)
        assert (status, json.loads(body)["object"]) == (200, kind)


@pytest.mark.parametrize(
    "asked",
    [{}, {"messages": "x"}, {**CHAT, "max_tokens": 0}, {**CHAT, "max_tokens": "many"}, {**CHAT, "max_tokens": 10**9}],
)
def test_what_cannot_be_answered_is_a_400(start: Callable[..., EngineProcess], asked: Any) -> None:
    assert post(start(), "/v1/chat/completions", asked)[0] == 400


def test_a_prompt_that_never_fits_is_a_400(start: Callable[..., EngineProcess]) -> None:
    assert post(start(ENGINE_CACHE_BLOCKS="4"), "/invocations", {"prompt": "x" * 1000})[0] == 400


def test_its_metrics_count_what_it_did(start: Callable[..., EngineProcess]) -> None:
    running = start()
    for _ in range(2):
        post(running, "/v1/chat/completions", CHAT)
    assert gauge(running, "vllm:prefix_cache_queries_total") == 150
    assert gauge(running, "vllm:prefix_cache_hits_total") == 64
    assert gauge(running, "vllm:generation_tokens_total") == 10
    assert gauge(running, "vllm:time_to_first_token_seconds_count") == 2
    assert running.page("/ping") == ""


@pytest.mark.parametrize("style", ["vllm", "vllm-old", "sglang"])
def test_the_gateway_understands_each_of_its_metrics_pages(start: Callable[..., EngineProcess], style: str) -> None:
    load = parse(start(ENGINE_METRICS=style, ENGINE_CACHE_BLOCKS="500").page("/metrics"), 0.0)
    assert load is not None
    assert (load.running, load.waiting, load.usage, load.cache_tokens) == (0, 0, 0, 8000)


def test_a_client_that_hangs_up_frees_its_seat(start: Callable[..., EngineProcess]) -> None:
    running = start(ENGINE_TIME_SCALE="1")
    host, port = running.address.split(":")
    body = json.dumps({**CHAT, "max_tokens": 5000}).encode()
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(b"POST /invocations HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        wait_for(lambda: gauge(running, "vllm:num_requests_running") == 1)
    wait_for(lambda: gauge(running, "vllm:num_requests_running") == 0)


def test_the_time_scale_makes_it_faster_and_leaves_its_own_time_alone(start: Callable[..., EngineProcess]) -> None:
    running = start(ENGINE_TIME_SCALE="0.001")
    began = clock.monotonic()
    post(running, "/v1/chat/completions", {**CHAT, "max_tokens": 4000})
    assert clock.monotonic() - began < 4000 * 0.022
    assert gauge(running, "vllm:e2e_request_latency_seconds_sum") == pytest.approx(4000 * 0.0224, rel=0.05)


def test_the_clock_is_kept_however_late_it_wakes(start: Callable[..., EngineProcess]) -> None:
    running = start(ENGINE_TIME_SCALE="0.1")
    began = clock.monotonic()
    post(running, "/v1/chat/completions", {**CHAT, "max_tokens": 200})
    assert clock.monotonic() - began >= 200 * 0.0224 * 0.1 * 0.95
