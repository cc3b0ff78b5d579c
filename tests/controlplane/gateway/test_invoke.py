"""InvokeEndpoint through the running gateway, with boto3, to real containers."""

import hashlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from controlplane.core import clock
from controlplane.routing.table import Target, VariantRoute
from tests.controlplane.gateway.site import (
    HASTY_SECONDS,
    LEAST,
    PATIENCE_SECONDS,
    PAYLOAD_LIMIT_BYTES,
    Container,
    NewContainer,
    Site,
    wait_for,
)
from tests.controlplane.routing.peers import free_port
from tests.engines_plugin import ACCOUNT


@pytest.fixture(autouse=True)
def _clean(site: Site) -> Iterator[None]:
    """No test finds the gateway still knowing the instances of the one before."""
    yield
    site.bury("one")


@pytest.fixture
def one(site: Site, containers: NewContainer) -> Container:
    """The endpoint `one`, served by one container."""
    running = containers("one")
    site.publish("one", running.target)
    return running


def invoke(site: Site, mode: str = "echo", body: bytes = b"", **members: Any) -> dict[str, Any]:
    """Call the endpoint `one`."""
    members = {"EndpointName": "one", "CustomAttributes": f"mode={mode}", **members}
    answer: dict[str, Any] = site.client().invoke_endpoint(Body=body, **members)
    answer["Body"] = answer["Body"].read()
    return answer


def refusal(site: Site, mode: str = "echo", body: bytes = b"", **members: Any) -> dict[str, Any]:
    """The answer to a call that is refused."""
    with pytest.raises(ClientError) as caught:
        invoke(site, mode, body, **members)
    response: dict[str, Any] = caught.value.response
    return response


def status_of(response: dict[str, Any]) -> int:
    return int(response["ResponseMetadata"]["HTTPStatusCode"])


# What goes through.


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/csv; charset=utf-16", "multipart/form-data; boundary=z"]
)
def test_bytes_and_content_type_come_back_as_they_were_sent(site: Site, one: Container, content_type: str) -> None:
    body = bytes(range(256)) * 500
    answer = invoke(site, body=body, ContentType=content_type)
    assert (answer["Body"], answer["ContentType"]) == (body, content_type)
    assert answer["InvokedProductionVariant"] == "main"
    assert one.received()[0]["headers"]["content-type"] == content_type


def test_an_empty_body_is_a_body(site: Site, one: Container) -> None:
    assert json.loads(invoke(site, "sha")["Body"]) == {"length": 0, "sha256": hashlib.sha256(b"").hexdigest()}


def test_a_body_of_exactly_the_limit_passes_and_one_byte_more_never_reaches_the_container(
    site: Site, one: Container
) -> None:
    body = b"x" * PAYLOAD_LIMIT_BYTES
    assert json.loads(invoke(site, "sha", body)["Body"])["length"] == PAYLOAD_LIMIT_BYTES
    refused = refusal(site, "sha", body + b"x")
    assert (status_of(refused), refused["Error"]["Code"]) == (400, "ValidationError")
    assert str(PAYLOAD_LIMIT_BYTES) in refused["Error"]["Message"]
    assert len(one.received()) == 1


def test_the_container_sees_the_listed_headers_and_no_other(site: Site, one: Container) -> None:
    headers = {
        "Content-Type": "text/plain",
        "Accept": "text/x-answer",
        "X-Amzn-SageMaker-Custom-Attributes": "a  b;mode=headers",
        "X-Amzn-SageMaker-Inference-Id": "id-1",
        "Cookie": "sessionid=secret",
        "Proxy-Authorization": "Basic c2VjcmV0",
        "X-Forwarded-For": "10.0.0.1",
        "X-Other": "1",
    }
    seen = site.post("/endpoints/one/invocations", b"x", headers).json
    assert set(seen) == {
        "host",
        "content-length",
        "content-type",
        "accept",
        "x-amzn-sagemaker-custom-attributes",
        "x-amzn-sagemaker-inference-id",
    }
    assert seen["x-amzn-sagemaker-custom-attributes"] == "a  b;mode=headers"
    assert seen["accept"] == "text/x-answer"


def test_a_chunked_request_reaches_the_container_with_its_length(site: Site, one: Container) -> None:
    path, body = "/endpoints/one/invocations", b"abcdef" * 1000
    headers = {**site.signed(path, body), "Transfer-Encoding": "chunked"}
    headers.pop("Content-Length", None)
    framed = (
        b"".join(b"%x\r\n%s\r\n" % (600, body[start : start + 600]) for start in range(0, len(body), 600)) + b"0\r\n\r\n"
    )
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": f"127.0.0.1:{site.port}", **headers}.items())
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(f"POST {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode() + framed)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(body)
    assert one.received()[0]["headers"]["content-length"] == str(len(body))


@pytest.mark.parametrize("mode", ["chunked", "big:3000000"])
def test_an_answer_of_any_framing_and_size_comes_whole(site: Site, one: Container, mode: str) -> None:
    body = b"0123456789" * 50_000
    expected = body if mode == "chunked" else b"x" * 3_000_000
    assert invoke(site, mode, body)["Body"] == expected


def test_every_2xx_of_the_container_is_the_200_of_the_operation(site: Site, one: Container) -> None:
    assert invoke(site, "http:201")["ResponseMetadata"]["HTTPStatusCode"] == 200


# What the container does wrong.


@pytest.mark.parametrize(
    ("status", "side"), [(400, "client"), (401, "client"), (429, "client"), (500, "server"), (503, "server")]
)
def test_a_failed_answer_is_a_model_error_in_the_words_that_clients_match(
    site: Site, one: Container, status: int, side: str
) -> None:
    refused = refusal(site, f"http:{status}")
    assert (status_of(refused), refused["Error"]["Code"]) == (424, "ModelError")
    assert refused["OriginalStatusCode"] == status
    assert refused["OriginalMessage"] == "the model says no"
    assert refused["Error"]["Message"] == (
        f'Received {side} error ({status}) from primary with message "the model says no". See https://us-east-1.console.aws'
        ".amazon.com/cloudwatch/home?region=us-east-1#logEventViewer:group=/aws/sagemaker/Endpoints/one in account "
        f"{ACCOUNT} for more information."
    )
    assert refused["LogStreamArn"].endswith("/aws/sagemaker/Endpoints/one")
    assert len(one.received()) == 1


@pytest.mark.parametrize("kind", ["html", "empty", "nonutf8", "nul", "10MB"])
def test_an_awkward_error_body_is_quoted_bounded_and_valid(site: Site, one: Container, kind: str) -> None:
    refused = refusal(site, f"http:500:{kind}")
    assert refused["OriginalStatusCode"] == 500
    assert len(refused["OriginalMessage"]) <= 1024
    assert len(refused["Error"]["Message"]) <= 2048


def test_a_redirect_is_not_followed(site: Site, one: Container) -> None:
    refused = refusal(site, f"redirect:http://{one.address}/invocations")
    assert (refused["Error"]["Code"], refused["OriginalStatusCode"]) == ("ModelError", 302)
    assert len(one.received()) == 1


@pytest.mark.parametrize("mode", ["lie", "garbage", "cut-after:3", "cut-after:0", "hdr:70000"])
def test_an_answer_that_breaks_off_lies_or_is_no_http_is_a_model_error(site: Site, one: Container, mode: str) -> None:
    refused = refusal(site, mode)
    assert (status_of(refused), refused["OriginalStatusCode"]) == (424, 0)
    assert invoke(site, body=b"next")["Body"] == b"next"


def test_a_large_answer_that_breaks_off_never_looks_whole(site: Site, one: Container) -> None:
    path = "/endpoints/one/invocations"
    headers = {
        **site.signed(path, b"", {"X-Amzn-SageMaker-Custom-Attributes": "mode=cut-after:60000"}),
        "Connection": "close",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": f"127.0.0.1:{site.port}", **headers}.items())
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert len(answer) > 300_000
    assert not answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("mode", ["hang:60", "drip"])
def test_an_answer_that_takes_too_long_is_a_model_error_without_a_status(
    hasty_site: Site, one: Container, mode: str
) -> None:
    since = clock.monotonic()
    refused = refusal(hasty_site, mode)
    assert HASTY_SECONDS - 0.1 < clock.monotonic() - since < 20 * HASTY_SECONDS
    assert refused["OriginalStatusCode"] == 0
    assert 'Received server error (0) from primary with message "Your invocation timed out' in refused["Error"]["Message"]


def test_a_container_that_dies_in_a_call_is_a_model_error_and_the_call_is_not_repeated(
    site: Site, containers: NewContainer
) -> None:
    both = containers("a"), containers("b")
    site.publish("one", *(each.target for each in both))
    refused = refusal(site, "crash")
    assert (refused["Error"]["Code"], refused["OriginalStatusCode"]) == ("ModelError", 0)
    assert sum(len(each.received()) for each in both) == 1


# Which instance.


def test_an_instance_that_cannot_be_reached_is_replaced_by_another_once(site: Site, containers: NewContainer) -> None:
    alive, dead = containers("alive"), Target("dead", f"127.0.0.1:{free_port()}", "t", False)
    site.publish("one", alive.target, dead)
    assert [invoke(site, body=b"%d" % n)["Body"] for n in range(10)] == [b"%d" % n for n in range(10)]
    site.publish("one", dead, Target("dead-too", f"127.0.0.1:{free_port()}", "t", False))
    wait_for(lambda: site.post("/endpoints/one/invocations").status == 424)
    assert "could not be reached" in refusal(site)["Error"]["Message"]


def test_a_draining_instance_gets_no_call_and_none_left_is_unavailable(site: Site, containers: NewContainer) -> None:
    stays, drains = containers("stays"), containers("drains")
    draining = Target(drains.instance_id, drains.address, "t", True)
    site.publish("one", stays.target, draining)
    wait_for(lambda: [invoke(site) for _ in range(10)])
    assert (len(stays.received()), drains.received()) == (10, [])
    site.publish("one", draining)
    wait_for(lambda: site.post("/endpoints/one/invocations").status == 503)
    assert refusal(site)["Error"]["Code"] == "ServiceUnavailable"


def test_weights_are_kept_and_a_named_variant_overrides_them(site: Site, containers: NewContainer) -> None:
    a, b, c = containers("a"), containers("b"), containers("c")
    weighted = zip("abc", (3.0, 1.0, 0.0), (a, b, c), strict=True)
    variants = tuple(VariantRoute(name, weight, LEAST, (each.target,)) for name, weight, each in weighted)
    site.publish("one", variants=variants)
    client = site.client()
    counts = Counter(client.invoke_endpoint(EndpointName="one", Body=b"")["InvokedProductionVariant"] for _ in range(400))
    assert counts["c"] == 0
    assert 0.65 < counts["a"] / 400 < 0.85
    assert invoke(site, TargetVariant="c")["InvokedProductionVariant"] == "c"
    assert "Variant nope" in refusal(site, TargetVariant="nope")["Error"]["Message"]


@contextmanager
def under_way(site: Site, mode: str) -> Iterator[None]:
    """A call to the endpoint `one` whose caller waits for no answer, and hangs up in the end."""
    path = "/endpoints/one/invocations"
    headers = site.signed(path, b"", {"X-Amzn-SageMaker-Custom-Attributes": f"mode={mode}"})
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": f"127.0.0.1:{site.port}", **headers}.items())
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(f"POST {path} HTTP/1.1\r\n{head}Content-Length: 0\r\n\r\n".encode())
        yield


def test_a_slow_instance_gets_few_calls(site: Site, containers: NewContainer) -> None:
    slow, quick = containers("slow"), containers("quick")
    site.publish("one", slow.target, quick.target)
    with under_way(site, "hang:60"):
        wait_for(lambda: slow.received() or quick.received())
        first = slow if slow.received() else quick
        for _ in range(20):
            assert site.post("/endpoints/one/invocations", b"x").status == 200
        assert len(first.received()) == 1


def test_a_caller_that_hangs_up_frees_the_instance(site: Site, one: Container) -> None:
    with under_way(site, "drip"):
        wait_for(one.received)
    aborted = wait_for(lambda: [line["event"] for line in one.journal() if line["event"] != "received"])
    assert aborted == ["client-abort"]


# Who may call what.


def test_an_endpoint_that_is_unknown_or_not_serving_is_not_found(site: Site, one: Container) -> None:
    site.publish("fails", one.target, status="Failed")
    for name in ("nope", "fails", "ONE"):
        refused = refusal(site, EndpointName=name)
        assert (status_of(refused), refused["Error"]["Code"]) == (400, "ValidationError")
        assert refused["Error"]["Message"] == f"Endpoint {name} of account {ACCOUNT} not found."


def test_an_asynchronous_endpoint_refuses_a_synchronous_call(site: Site, one: Container) -> None:
    site.publish("only-async", one.target, failure_path="")
    message = refusal(site, EndpointName="only-async")["Error"]["Message"]
    assert message.endswith("does not support this inference type.")


@pytest.mark.parametrize("attributes", ["caf\u00e9", "\u6f22\u5b57", "k" * 1025])
def test_attributes_that_are_no_ascii_or_too_long_are_refused_before_the_container(
    site: Site, one: Container, attributes: str
) -> None:
    refused = refusal(site, CustomAttributes=attributes)
    assert (status_of(refused), refused["Error"]["Code"]) == (400, "ValidationError")
    assert one.received() == []


def test_a_component_on_an_endpoint_without_components_is_refused(site: Site, one: Container) -> None:
    refused = refusal(site, InferenceComponentName="x")
    assert (status_of(refused), refused["Error"]["Code"]) == (400, "ValidationError")
    assert one.received() == []


def test_signatures_are_checked_in_the_form_of_the_runtime(site: Site, one: Container) -> None:
    path = "/endpoints/one/invocations"
    good = site.signed(path, b"abc")
    changed = site.request("POST", path, b"abd", good)
    wrong = site.post(path, secret="no")
    unknown = site.post(path, access_key_id="AKIDNOBODY")
    unsigned = site.request("POST", path, b"abc")
    s3 = site.post(path, service="sns")
    assert [each.status for each in (changed, wrong, unknown, unsigned, s3)] == [403] * 5
    assert [each.json["__type"] for each in (changed, wrong, unknown, unsigned, s3)] == [
        "InvalidSignatureException",
        "InvalidSignatureException",
        "UnrecognizedClientException",
        "MissingAuthenticationTokenException",
        "InvalidSignatureException",
    ]
    for each in (changed, wrong, unknown, unsigned):
        assert each.headers["x-amzn-errortype"] == each.json["__type"]
        assert each.headers["x-amzn-requestid"]
    assert site.request("POST", path, b"abc", good).body == b"abc"
    assert len(one.received()) == 1


def test_the_body_of_a_stranger_is_not_waited_for(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(b"POST /endpoints/one/invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 403 ")


def test_a_call_with_expect_continue_is_told_to_continue_and_a_stranger_is_not(site: Site, one: Container) -> None:
    path, body = "/endpoints/one/invocations", b"x" * 1000
    for headers, first in ((site.signed(path, body), b"HTTP/1.1 100 "), ({}, b"HTTP/1.1 403 ")):
        fields = {"Host": f"127.0.0.1:{site.port}", **headers, "Content-Length": "1000", "Expect": "100-continue"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE_SECONDS) as raw:
            raw.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode())
            assert raw.recv(100).startswith(first)


def test_calls_after_a_pause_are_delivered_once_each(site: Site, one: Container) -> None:
    client, pause = site.client(), threading.Event()
    for seconds in (0.0, 0.1, 1.9, 2.1):
        pause.wait(seconds)
        client.invoke_endpoint(EndpointName="one", Body=b"x")
    assert len(one.received()) == 4
