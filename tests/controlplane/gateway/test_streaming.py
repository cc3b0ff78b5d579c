"""InvokeEndpointWithResponseStream through the running gateway, read by an unmodified boto3 from real containers."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError

from controlplane.core import clock
from controlplane.gateway.streaming import until
from controlplane.routing.table import Target
from tests.controlplane.gateway.held import held
from tests.controlplane.gateway.site import (
    PATIENCE_SECONDS,
    PAYLOAD_LIMIT_BYTES,
    Container,
    NewContainer,
    Site,
    wait_for,
)
from tests.controlplane.gateway.test_counting import total
from tests.controlplane.routing.peers import free_port

PATH = "/endpoints/streamed/invocations-response-stream"
LIMIT_SECONDS = 3.0


@pytest.fixture(autouse=True)
def _clean(site: Site) -> Iterator[None]:
    """No test finds the gateway still knowing the instances of the one before."""
    yield
    site.bury("streamed")


@pytest.fixture
def one(site: Site, containers: NewContainer) -> Container:
    """The endpoint `streamed`, served by one container."""
    running = containers("one")
    site.publish("streamed", running.target)
    return running


@pytest.fixture(scope="module")
def brief_site(start_site: Callable[..., Site]) -> Iterator[Site]:
    """A gateway that ends streams soon."""
    with ExitStack() as stack:
        yield start_site(stack, HEADRACE_STREAM_TIMEOUT_SECONDS=str(LIMIT_SECONDS))


def start(site: Site, mode: str = "echo", body: bytes = b"", **members: Any) -> dict[str, Any]:
    """Begin one stream."""
    members = {"EndpointName": "streamed", "CustomAttributes": f"mode={mode}", **members}
    answer: dict[str, Any] = site.client().invoke_endpoint_with_response_stream(Body=body, **members)
    return answer


def pieces_of(answer: dict[str, Any]) -> list[bytes]:
    return [event["PayloadPart"]["Bytes"] for event in answer["Body"]]


def refusal(site: Site, mode: str = "echo", body: bytes = b"", **members: Any) -> dict[str, Any]:
    """The ordinary answer to a call that fails before its stream begins."""
    with pytest.raises(ClientError) as caught:
        start(site, mode, body, **members)
    assert not isinstance(caught.value, EventStreamError)
    response: dict[str, Any] = caught.value.response
    return response


def broken(answer: dict[str, Any]) -> tuple[list[bytes], EventStreamError]:
    """The pieces that came, and the failure that ended the stream."""
    pieces: list[bytes] = []
    with pytest.raises(EventStreamError) as caught:
        pieces.extend(event["PayloadPart"]["Bytes"] for event in answer["Body"])
    return pieces, caught.value


# What goes through.


@pytest.mark.parametrize("mode", ["echo", "chunked"])
def test_the_pieces_are_the_body_of_the_container(site: Site, one: Container, mode: str) -> None:
    body = bytes(range(256)) * 2000
    answer = start(site, mode, body, ContentType="application/x-bytes")
    assert b"".join(pieces_of(answer)) == body
    assert answer["ContentType"] == "application/x-bytes"
    assert answer["InvokedProductionVariant"] == "main"


def test_a_stream_of_any_size_passes(site: Site, one: Container) -> None:
    assert sum(map(len, pieces_of(start(site, "big:30000000")))) == 30_000_000


def test_an_answer_without_a_body_is_a_stream_without_pieces(site: Site, one: Container) -> None:
    assert pieces_of(start(site)) == []


def test_each_piece_goes_out_before_the_next_one_comes(site: Site) -> None:
    pieces = [b"piece %d" % number for number in range(4)]
    came = []
    with held(*pieces, free=1) as instance:
        site.publish("streamed", instance.target)
        for event in start(site)["Body"]:
            came.append(event["PayloadPart"]["Bytes"])
            instance.allow()
    assert came == pieces


def test_the_container_is_asked_as_by_an_ordinary_call(site: Site, one: Container) -> None:
    answer = start(site, "headers", b"x", Accept="text/x-answer", ContentType="text/plain", InferenceId="id-1")
    assert json.loads(b"".join(pieces_of(answer))) == {
        "host": one.address,
        "content-length": "1",
        "content-type": "text/plain",
        "accept": "text/x-answer",
        "x-amzn-sagemaker-custom-attributes": "mode=headers",
        "x-amzn-sagemaker-inference-id": "id-1",
    }


def test_the_answer_names_its_kind_and_its_request(site: Site, one: Container) -> None:
    answer = site.post(PATH, b"x", {"X-Amzn-SageMaker-Custom-Attributes": "mode=echo"})
    assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
    assert answer.headers["x-amzn-requestid"]


# What is refused before the first byte.


def test_a_container_that_says_no_is_a_model_error(site: Site, one: Container) -> None:
    refused = refusal(site, "http:503")
    assert (refused["Error"]["Code"], refused["OriginalStatusCode"]) == ("ModelError", 503)
    assert "the model says no" in refused["OriginalMessage"]
    assert len(one.received()) == 1


@pytest.mark.parametrize("mode", ["crash", "garbage", "cut-after:0", "hang:60"])
def test_a_container_that_fails_before_its_first_byte_is_a_model_error(brief_site: Site, one: Container, mode: str) -> None:
    refused = refusal(brief_site, mode)
    assert (refused["Error"]["Code"], refused["OriginalStatusCode"]) == ("ModelError", 0)


def test_a_body_beyond_the_limit_never_reaches_the_container(site: Site, one: Container) -> None:
    refused = refusal(site, body=b"x" * (PAYLOAD_LIMIT_BYTES + 1))
    assert refused["Error"]["Code"] == "ValidationError"
    assert one.received() == []


def test_an_unknown_and_an_asynchronous_endpoint_are_refused(site: Site, one: Container) -> None:
    unknown = refusal(site, EndpointName="nobody")
    assert (unknown["Error"]["Code"], "not found" in unknown["Error"]["Message"]) == ("ValidationError", True)
    site.publish("streamed", one.target, failure_path="")
    wait_for(lambda: b"inference type" in site.post(PATH, b"x").body)
    assert refusal(site)["Error"]["Message"].endswith("does not support this inference type.")


def test_an_instance_that_cannot_be_reached_is_passed_over(site: Site, one: Container) -> None:
    site.publish("streamed", Target("gone", f"127.0.0.1:{free_port()}", "ml.m5.large", False), one.target)
    bodies = [b"".join(pieces_of(start(site, body=b"x"))) for _ in range(8)]
    assert bodies == [b"x"] * 8


# What breaks later.


def test_a_container_that_breaks_off_ends_the_stream_with_an_error(site: Site, one: Container) -> None:
    pieces, error = broken(start(site, "cut-after:3"))
    assert b"".join(pieces) == b"chunk 0\nchunk 1\nchunk 2\n"
    assert error.response["Error"]["Code"] == "ModelStreamError"
    assert "StreamBroken" in error.response["Error"]["Message"]


def test_a_container_that_promises_more_than_it_sends_ends_the_stream_with_an_error(site: Site, one: Container) -> None:
    pieces, error = broken(start(site, "lie"))
    assert (b"".join(pieces), "StreamBroken" in str(error)) == (b"far less", True)


def test_a_stream_that_takes_too_long_is_ended(brief_site: Site, one: Container) -> None:
    began = clock.monotonic()
    pieces, error = broken(start(brief_site, "pace:1000:0.5"))
    assert pieces[0] == b"chunk 0\n"
    assert "ModelInvocationTimeExceeded" in error.response["Error"]["Message"]
    assert LIMIT_SECONDS - 0.5 < clock.monotonic() - began < 10 * LIMIT_SECONDS


def test_a_failed_stream_counts_as_a_model_error_and_its_time_as_latency_until_the_first_piece(
    site: Site, one: Container
) -> None:
    name = "streamed-counted"
    site.publish(name, one.target)
    began = clock.monotonic()
    broken(start(site, "cut-after:1", EndpointName=name))
    stream = iter(start(site, "pace:2:0.5", EndpointName=name)["Body"])
    next(stream)
    until_first_piece = clock.monotonic() - began
    assert len(list(stream)) == 1
    wait_for(lambda: total(site, name, "Invocations") == 2)
    assert total(site, name, "InvocationModelErrors") == 1
    assert total(site, name, "OverheadLatency") + total(site, name, "ModelLatency") < until_first_piece * 1e6


def test_a_client_that_hangs_up_ends_the_work_of_the_container(site: Site, one: Container) -> None:
    headers = site.signed(PATH, b"", {"X-Amzn-SageMaker-Custom-Attributes": "mode=pace:100000:0.05"})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() != "host")
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n{lines}Content-Length: 0\r\n\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
    wait_for(lambda: [line["event"] for line in one.journal()] == ["received", "client-abort"])


def test_a_client_that_does_not_read_holds_the_container_back(site: Site, one: Container) -> None:
    headers = site.signed(PATH, b"", {"X-Amzn-SageMaker-Custom-Attributes": "mode=big:200000000"})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() != "host")
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n{lines}Content-Length: 0\r\n\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
        before = _resident_bytes(site)
        start(site, body=b"another call is served meanwhile")
        assert _resident_bytes(site) - before < 30_000_000
    assert not [line for line in one.journal() if line["event"] == "ok" and line["length"] == 0]


def _resident_bytes(site: Site) -> int:
    assert site.process is not None
    with open(f"/proc/{site.process.pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


# The limit in time, by itself.


class _Ticking:
    """A clock that moves by one second with every look."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Any:
        raise AssertionError("durations are not measured by the wall clock")

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds


def test_pieces_that_are_always_ready_end_at_the_deadline_as_well() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"."

    count = 0

    async def read() -> None:
        nonlocal count
        async for _ in until(100.0, endless()):
            count += 1

    before = clock.use(_Ticking())
    try:
        with pytest.raises(TimeoutError):
            asyncio.run(read())
    finally:
        clock.use(before)
    assert 10 < count < 100
