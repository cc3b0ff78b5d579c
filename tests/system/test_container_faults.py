"""A container that fails, lies, hangs or dies, and clients that do: every call ends in time, in the protocol's form."""

import http.client
import time
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from tests.system.raw import connection, invoke, open_invocation
from tests.system.stack import SECOND, Stack, create_endpoint, delete_endpoint, in_service

NAME = "faults"
OTHER = "faults-start"


@pytest.fixture(scope="module")
def endpoint(stack: Stack) -> Iterator[str]:
    create_endpoint(stack, NAME, count=2)
    in_service(stack, NAME)
    yield NAME
    delete_endpoint(stack, NAME)


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 408, 413, 422, 424, 429, 500, 503, 599, 999])
def test_a_refusal_of_the_container_is_a_model_error(stack: Stack, endpoint: str, status: int) -> None:
    answer = invoke(stack, endpoint, b"x", f"http:{status}")
    side = "client" if 400 <= status < 500 else "server"
    assert (answer.status, answer.code) == (424, "ModelError")
    assert answer.document["OriginalStatusCode"] == status
    assert answer.document["OriginalMessage"] == "the model says no"
    assert answer.document["Message"].startswith(f"Received {side} error ({status}) from primary")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("html", "<html><body>no</body></html>"),
        ("empty", ""),
        ("nul", "no\x00no"),
        ("nonutf8", bytes(range(256)).decode("utf-8", "replace")),
        ("10MB", "x" * 1024),
    ],
)
def test_the_words_of_a_failing_container_are_quoted_within_bounds(
    stack: Stack, endpoint: str, kind: str, words: str
) -> None:
    answer = invoke(stack, endpoint, b"x", f"http:500:{kind}")
    assert (answer.status, answer.code) == (424, "ModelError")
    assert answer.document["OriginalMessage"] == words
    assert len(answer.document["Message"]) <= 2048


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/", "/ping"])
def test_a_redirect_is_not_followed(stack: Stack, endpoint: str, target: str) -> None:
    assert invoke(stack, endpoint, b"x", f"redirect:{target}").document["OriginalStatusCode"] == 302


@pytest.mark.parametrize(("mode", "body"), [("http:204", b""), ("http:204:empty", b""), ("http:206", b"the model says no")])
def test_every_good_answer_is_a_200_with_a_true_length(stack: Stack, endpoint: str, mode: str, body: bytes) -> None:
    answer = invoke(stack, endpoint, b"x", mode)
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, str(len(body)), body)


@pytest.mark.parametrize("mode", ["chunked", "hdr:5000", "hdr:60000"])
def test_chunks_and_large_headers_are_understood(stack: Stack, endpoint: str, mode: str) -> None:
    body = bytes(range(256)) * 20
    answer = invoke(stack, endpoint, body, mode)
    assert (answer.status, answer.body) == (200, body)


@pytest.mark.parametrize("size", [6_291_456, 6_291_457, 50_000_000])
def test_a_large_answer_arrives_whole(stack: Stack, endpoint: str, size: int) -> None:
    answer = invoke(stack, endpoint, b"x", f"big:{size}")
    assert (answer.status, answer.body) == (200, b"x" * size)


@pytest.mark.parametrize("mode", ["garbage", "http:101", "lie", "cut-after:0", "cut-after:3"])
def test_no_answer_worth_the_name_is_a_model_error(stack: Stack, endpoint: str, mode: str) -> None:
    answer = invoke(stack, endpoint, b"x", mode)
    assert (answer.status, answer.code, answer.document["OriginalStatusCode"]) == (424, "ModelError", 0)


def test_a_large_answer_that_breaks_off_never_looks_whole(stack: Stack, endpoint: str) -> None:
    with pytest.raises(http.client.IncompleteRead):
        invoke(stack, endpoint, b"x", "cut-after:60000")


def test_a_container_that_dies_in_a_call_costs_that_call_alone(stack: Stack, endpoint: str) -> None:
    answer = invoke(stack, endpoint, b"x", "crash")
    assert (answer.status, answer.code) == (424, "ModelError")
    for _ in range(20):
        assert invoke(stack, endpoint, b"still here", "echo").body == b"still here"

    def has_healed() -> bool:
        described = stack.client("sagemaker").describe_endpoint(EndpointName=endpoint)
        return bool(described["ProductionVariants"][0]["CurrentInstanceCount"] == 2)

    assert stack.wait(has_healed, 60)


def test_a_container_that_hangs_or_drips_is_given_up_after_a_minute(stack: Stack, endpoint: str) -> None:
    dripping = open_invocation(stack, endpoint, b"x", "drip")
    started = time.monotonic()
    answer = invoke(stack, endpoint, b"x", "hang:600")
    took = time.monotonic() - started
    assert (answer.status, answer.code, answer.document["OriginalStatusCode"]) == (424, "ModelError", 0)
    assert "timed out" in answer.document["Message"]
    assert 59 < took < 100
    with dripping, http.client.HTTPResponse(dripping, method="POST") as dripped:
        dripped.begin()
        assert (dripped.status, dripped.headers["x-amzn-errortype"]) == (424, "ModelError")


def test_clients_that_hang_up_or_do_not_read_cost_nobody_else(stack: Stack, endpoint: str) -> None:
    waiting = [open_invocation(stack, endpoint, b"x", "hang:50") for _ in range(50)]
    unread = [open_invocation(stack, endpoint, b"x", "big:50000000") for _ in range(5)]
    half = [connection(stack, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{") for _ in range(100)]
    for each in waiting:
        each.close()
    started = time.monotonic()
    assert invoke(stack, endpoint, b"next", "echo").body == b"next"
    assert time.monotonic() - started < 30
    for each in [*unread, *half]:
        each.close()
    assert stack.wait(lambda: _calls_in_flight(stack) == 0) is True


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"CHAOS_START": "exit:3"}, "exited with code 3"),
        ({"CHAOS_START": "exit:3", "CHAOS_PING": "500"}, "did not pass the ping health check"),
    ],
)
def test_a_container_that_leaves_at_the_start_fails_the_endpoint(
    stack: Stack, environment: dict[str, str], reason: str
) -> None:
    create_endpoint(stack, OTHER, types=(SECOND,), environment=environment)
    failed = stack.wait(lambda: _failure_reason(stack, OTHER), 60)
    delete_endpoint(stack, OTHER)
    assert reason in failed
    assert len(failed) <= 1024


def test_an_endpoint_is_deleted_while_its_container_is_not_ready_and_made_again(stack: Stack) -> None:
    create_endpoint(stack, OTHER, types=(SECOND,), environment={"CHAOS_PING": "503-for:120"})
    runtime, sagemaker = stack.client("sagemaker-runtime"), stack.client("sagemaker")
    with pytest.raises(ClientError, match="not found"):
        runtime.invoke_endpoint(EndpointName=OTHER, Body=b"x")
    sagemaker.delete_endpoint(EndpointName=OTHER)
    with pytest.raises(ClientError, match="already existing"):
        sagemaker.create_endpoint(EndpointName=OTHER, EndpointConfigName=OTHER)
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=OTHER, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    sagemaker.create_endpoint(EndpointName=OTHER, EndpointConfigName=OTHER)
    delete_endpoint(stack, OTHER)


def _failure_reason(stack: Stack, name: str) -> str:
    described = stack.client("sagemaker").describe_endpoint(EndpointName=name)
    return str(described.get("FailureReason", "")) if described["EndpointStatus"] == "Failed" else ""


def _calls_in_flight(stack: Stack) -> int:
    with stack.database() as database:
        [[busy]] = database.execute("SELECT in_flight FROM fleet_gatewayheartbeat ORDER BY seen_at DESC LIMIT 1").fetchall()
    return sum(busy.values())
