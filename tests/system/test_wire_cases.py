"""Public failures of other servers, replayed on the wire: formats, signatures, framing, odd and hostile requests."""

import hashlib
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.system.raw import JSON_1_1, call, exchange, invoke, send, signed
from tests.system.stack import PLENTY, Stack, create_endpoint, delete_endpoint, in_service

NAME = "wire"
LIST_MODELS = {"Content-Type": JSON_1_1, "X-Amz-Target": "SageMaker.ListModels"}


@pytest.fixture(scope="module")
def endpoint(stack: Stack) -> Iterator[str]:
    create_endpoint(stack, NAME)
    in_service(stack, NAME)
    yield NAME
    delete_endpoint(stack, NAME)


def _config(name: str, **members: Any) -> dict[str, Any]:
    variant = {"VariantName": "main", "ModelName": NAME, "InitialInstanceCount": 1, "InstanceType": PLENTY, **members}
    return {"EndpointConfigName": name, "ProductionVariants": [variant]}


# Formats


@pytest.mark.parametrize("operation", ["DescribeEndpoint", "ListEndpoints"])
def test_times_are_numbers_and_answers_have_length_and_id(stack: Stack, endpoint: str, operation: str) -> None:
    answer = call(stack, operation, {"EndpointName": endpoint} if operation == "DescribeEndpoint" else {})
    document = answer.document["Endpoints"][0] if operation == "ListEndpoints" else answer.document
    assert isinstance(document["CreationTime"], float | int)
    assert isinstance(document["LastModifiedTime"], float | int)
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.headers["x-amzn-requestid"]


@pytest.mark.parametrize("name", ["nope", 'a"b', "a\\b", "<x>", "a\x00b"])
def test_an_error_is_json_whatever_it_quotes(stack: Stack, name: str) -> None:
    answer = call(stack, "DescribeEndpoint", {"EndpointName": name})
    assert (answer.status, answer.code) == (400, "ValidationException")
    assert answer.document["message"]


@pytest.mark.parametrize("weights", [(0.8, 0.2), (0.1, 0.9), (1 / 3, 2 / 3)])
def test_weights_come_back_as_they_were_sent(stack: Stack, endpoint: str, weights: tuple[float, float]) -> None:
    sagemaker = stack.client("sagemaker")
    [variant] = _config("weights")["ProductionVariants"]
    pairs = zip("ab", weights, strict=True)
    variants = [{**variant, "VariantName": name, "InitialVariantWeight": weight} for name, weight in pairs]
    sagemaker.create_endpoint_config(EndpointConfigName="weights", ProductionVariants=variants)
    described = sagemaker.describe_endpoint_config(EndpointConfigName="weights")["ProductionVariants"]
    sagemaker.delete_endpoint_config(EndpointConfigName="weights")
    assert [each["InitialVariantWeight"] for each in described] == list(weights)


def test_a_description_can_be_fed_back(stack: Stack, endpoint: str) -> None:
    sagemaker = stack.client("sagemaker")
    described = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint)
    members = sagemaker.meta.service_model.operation_model("CreateEndpointConfig").input_shape.members
    again = {name: value for name, value in described.items() if name in members}
    sagemaker.create_endpoint_config(**{**again, "EndpointConfigName": "again"})
    copy = sagemaker.describe_endpoint_config(EndpointConfigName="again")
    sagemaker.delete_endpoint_config(EndpointConfigName="again")
    assert copy["ProductionVariants"] == described["ProductionVariants"]


# Bodies and headers of a call


@pytest.mark.parametrize("size", [0, 1, 2_621_440, 2_621_441, 6_291_456, 25 * 1024 * 1024])
def test_a_body_of_any_allowed_size_reaches_the_container_whole(stack: Stack, endpoint: str, size: int) -> None:
    body = os.urandom(size)
    answer = invoke(stack, endpoint, body, "sha")
    assert answer.status == 200
    assert answer.document == {"length": size, "sha256": hashlib.sha256(body).hexdigest()}


def test_a_body_over_the_limit_is_refused(stack: Stack, endpoint: str) -> None:
    answer = invoke(stack, endpoint, bytes(25 * 1024 * 1024 + 1), "sha")
    assert (answer.status, answer.code) == (400, "ValidationError")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "text/csv; charset=utf-16",
        "multipart/form-data; boundary=zz",
        "application/x-www-form-urlencoded",
    ],
)
def test_a_body_is_never_decoded(stack: Stack, endpoint: str, content_type: str) -> None:
    body = bytes(range(256)) * 100
    answer = invoke(stack, endpoint, body, "echo", Content_Type=content_type)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, content_type, body)


@pytest.mark.parametrize("value", ["  a   b  ", "x ", "a\tb", "", "k" * 1024])
def test_attributes_with_odd_spaces_are_accepted(stack: Stack, endpoint: str, value: str) -> None:
    runtime = stack.client("sagemaker-runtime")
    assert runtime.invoke_endpoint(EndpointName=endpoint, Body=b"x", CustomAttributes=value)["Body"].read() == b"x"


@pytest.mark.parametrize("value", ["caf\u00e9", "\u6f22\u5b57", "\U0001f600", "k" * 1025])
def test_attributes_that_are_not_ascii_or_too_long_are_refused(stack: Stack, endpoint: str, value: str) -> None:
    with pytest.raises(ClientError) as refused:
        stack.client("sagemaker-runtime").invoke_endpoint(EndpointName=endpoint, Body=b"x", CustomAttributes=value)
    assert refused.value.response["Error"]["Code"] == "ValidationError"
    assert "customAttributes" in refused.value.response["Error"]["Message"]


def test_the_container_sees_the_members_and_nothing_else(stack: Stack, endpoint: str) -> None:
    secrets = {"Cookie": "a=b", "Proxy_Authorization": "x", "X_Secret": "y", "Connection": "keep-alive"}
    seen = invoke(stack, endpoint, b"", "headers", Content_Type="text/csv", Accept="text/html", **secrets).document
    seen.pop("host")
    assert seen == {
        "content-type": "text/csv",
        "accept": "text/html",
        "x-amzn-sagemaker-custom-attributes": "mode=headers",
        "content-length": "0",
    }


# Paths, verbs, operations


@pytest.mark.parametrize("target", ["CreateTrainingJob", "CreateInferenceComponent", "Nope", ""])
def test_an_operation_that_is_not_there_is_refused_by_name(stack: Stack, target: str) -> None:
    answer = call(stack, target, {})
    assert (answer.status, answer.code) == (400, "UnknownOperationException")
    assert repr(target) in answer.document["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("DELETE", "/"),
        ("TRACE", "/"),
        ("POST", "//"),
        ("GET", "/nope"),
        ("GET", "/%ff%00"),
        ("GET", "/static/x.css"),
        ("PUT", "/endpoints/wire/invocations"),
        ("POST", "/endpoints/wire/invocations/"),
        ("POST", "/endpoints//invocations"),
        ("GET", "/endpoints/wire/invocations-response-stream"),
    ],
)
def test_wrong_verbs_and_paths_are_errors_in_json(stack: Stack, method: str, path: str) -> None:
    answer = send(stack, method, path, signed(stack, method, path, LIST_MODELS, b""), b"")
    assert answer.status in (400, 404, 405)
    assert answer.code == "UnknownOperationException"
    assert answer.headers["x-amzn-requestid"]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b"{}x", b"\xff{}", b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"a":' * 5000, b"NaN"]
)
def test_a_body_that_is_no_json_object_is_refused(stack: Stack, body: bytes) -> None:
    answer = call(stack, "ListModels", body)
    assert (answer.status, answer.code) == (400, "SerializationException")


def test_a_control_plane_body_over_the_cap_is_refused(stack: Stack) -> None:
    answer = call(stack, "ListModels", b" " * (4 * 1024 * 1024 + 1))
    assert (answer.status, answer.code) == (413, "RequestEntityTooLargeException")


@pytest.mark.parametrize("count", [2**31, 2**63, -1, 0, "1", 1.5, True, 10**400])
def test_counts_outside_of_every_range_are_refused(stack: Stack, endpoint: str, count: object) -> None:
    answer = call(stack, "CreateEndpointConfig", _config("counts", InitialInstanceCount=count))
    assert answer.status == 400
    assert "nitialInstanceCount" in answer.document["message"]


@pytest.mark.parametrize("weight", ["NaN", "Infinity", float("nan"), float("inf"), 3.5e38, -1, True])
def test_weights_that_are_no_finite_numbers_are_refused(stack: Stack, endpoint: str, weight: object) -> None:
    assert call(stack, "CreateEndpointConfig", _config("finite", InitialVariantWeight=weight)).status == 400
    assert call(stack, "ListEndpointConfigs", {}).status == 200


# Signatures


def test_an_altered_body_has_no_effect(stack: Stack) -> None:
    body = json.dumps({"ModelName": "honest", "PrimaryContainer": {"Image": "any"}}).encode()
    altered = body.replace(b"honest", b"forged")
    headers = signed(stack, "POST", "/", {**LIST_MODELS, "X-Amz-Target": "SageMaker.CreateModel"}, body)
    assert send(stack, "POST", "/", headers, altered).code == "InvalidSignatureException"
    headers["X-Amz-Content-SHA256"] = hashlib.sha256(altered).hexdigest()
    assert send(stack, "POST", "/", headers, altered).code == "InvalidSignatureException"
    assert "Could not find model" in call(stack, "DescribeModel", {"ModelName": "forged"}).document["message"]


@pytest.mark.parametrize("header", ["X-Amzn-SageMaker-Target-Variant", "X-Amzn-SageMaker-Inference-Id", "X-Amz-Target"])
def test_a_member_outside_of_the_signature_is_refused(stack: Stack, endpoint: str, header: str) -> None:
    path = f"/endpoints/{endpoint}/invocations"
    headers = signed(stack, "POST", path, {}, b"") | {header: "added"}
    answer = send(stack, "POST", path, headers, b"")
    assert (answer.status, answer.code) == (403, "InvalidSignatureException")


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        ({"secret": "wrong"}, "InvalidSignatureException"),
        ({"secret": ""}, "InvalidSignatureException"),
        ({"key": "AKIAUNKNOWN"}, "UnrecognizedClientException"),
        ({"service": "sns"}, "InvalidSignatureException"),
        ({"region": "eu-west-1"}, "InvalidSignatureException"),
    ],
)
def test_wrong_credentials_are_refused_at_both_doors(stack: Stack, scope: dict[str, str], code: str) -> None:
    control = send(stack, "POST", "/", signed(stack, "POST", "/", LIST_MODELS, b"{}", **scope), b"{}")
    assert (control.status, control.code) == (400, code)
    path = "/endpoints/wire/invocations"
    runtime = send(stack, "POST", path, signed(stack, "POST", path, {}, b"{}", **scope), b"{}")
    assert (runtime.status, runtime.code) == (403, code)


def test_an_unknown_client_is_refused_before_its_body_is_read(stack: Stack) -> None:
    head = b"POST /endpoints/wire/invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n"
    answer = exchange(stack, head)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"MissingAuthenticationToken" in answer


def test_a_request_id_is_taken_from_nobody(stack: Stack) -> None:
    headers = signed(stack, "POST", "/", LIST_MODELS, b"{}") | {"headrace-request-id": "forged"}
    assert "forged" not in send(stack, "POST", "/", headers, b"{}").headers["x-amzn-requestid"]


@pytest.mark.parametrize("secret", [None, "wrong"])
def test_a_client_that_waits_for_100_continue_is_answered(stack: Stack, endpoint: str, secret: str | None) -> None:
    path, body = f"/endpoints/{endpoint}/invocations", os.urandom(3_000_000)
    scope = {"secret": secret} if secret else {}
    headers = signed(stack, "POST", path, {}, body, **scope) | {
        "Host": f"127.0.0.1:{stack.port}",
        "Content-Length": str(len(body)),
        "Expect": "100-continue",
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", int(stack.port)), timeout=60) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 403 " if secret else b"HTTP/1.1 200 ")
    assert secret or answer.endswith(body)


# Framing


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"Content-Length: +5\r\n\r\nhello",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999999999999999\r\n\r\n",
        b"Content-Length : 2\r\n\r\n{}",
        b"X-A: b\r\n c\r\n\r\n",
        b"X-A: a\x00b\r\n\r\n",
        b": b\r\n\r\n",
        b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n",
    ],
)
def test_an_ambiguous_or_outsized_request_is_refused_and_cut_off(stack: Stack, lines: bytes) -> None:
    smuggled = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    try:
        answer = exchange(stack, b"POST / HTTP/1.1\r\nHost: x\r\n" + lines + smuggled)
    except ConnectionError:  # cut off while it was still sending
        answer = b"HTTP/1.1 431 "
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert answer.count(b"HTTP/1.1") == 1


# Races


def test_twenty_creations_of_one_name_make_one(stack: Stack, endpoint: str) -> None:
    def create(number: int) -> str:
        name = "race" if number % 2 else "RACE"
        answer = call(stack, "CreateModel", {"ModelName": name, "PrimaryContainer": {"Image": "any"}})
        return "created" if answer.status == 200 else str(answer.document["message"][:36])

    with ThreadPoolExecutor(20) as threads:
        outcomes = list(threads.map(create, range(20)))
    assert sorted(set(outcomes)) == ["Cannot create already existing model", "created"]
    assert outcomes.count("created") == 1
    [model] = stack.client("sagemaker").list_models(NameContains="race")["Models"]
    stack.client("sagemaker").delete_model(ModelName=model["ModelName"])


def test_tags_added_at_once_never_pass_the_limit_together(stack: Stack) -> None:
    tags = [{"Key": f"old{number}", "Value": ""} for number in range(45)]
    sagemaker = stack.client("sagemaker")
    arn = sagemaker.create_model(ModelName="tag-race", PrimaryContainer={"Image": "any"}, Tags=tags)["ModelArn"]

    def add(number: int) -> int:
        new = [{"Key": f"new{number}-{place}", "Value": ""} for place in range(3)]
        return call(stack, "AddTags", {"ResourceArn": arn, "Tags": new}).status

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(add, range(8)))
    count = len(sagemaker.list_tags(ResourceArn=arn)["Tags"])
    sagemaker.delete_model(ModelName="tag-race")
    assert (sorted(statuses), count) == ([200] + [400] * 7, 48)
