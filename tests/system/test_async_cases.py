"""Public failures of other servers, replayed on asynchronous calls: limits, names, failures, and what they cost others."""

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.system.asynchronous import accept, outcome, queue_of
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service

NAME = "async-cases"
LIMIT = 128_000


@pytest.fixture(scope="module")
def endpoint(stack: Stack, bucket: str) -> Iterator[str]:
    with queue_of(stack, NAME, bucket) as name:
        yield name


def _refusal(stack: Stack, **members: Any) -> str:
    runtime = stack.client("sagemaker-runtime", parameter_validation=False)
    with pytest.raises(ClientError) as refused:
        runtime.invoke_endpoint_async(EndpointName=NAME, **members)
    assert refused.value.response["Error"]["Code"] == "ValidationError"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return str(refused.value.response["Error"]["Message"])


def test_the_answer_names_id_and_places(stack: Stack, endpoint: str, bucket: str) -> None:
    accepted = accept(stack, NAME, b"{}", InferenceId="my-id-1")
    assert accepted["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert accepted["InferenceId"] == "my-id-1"
    assert accepted["OutputLocation"].startswith(f"s3://{bucket}/out/")
    assert accepted["FailureLocation"].startswith(f"s3://{bucket}/failed/")
    assert outcome(stack, accepted) == (b"{}", None)


@pytest.mark.parametrize(
    "body", [b" ", os.urandom(LIMIT), "\u00e9".encode() * (LIMIT // 2)], ids=["a space", "bytes", "characters"]
)
def test_a_body_up_to_the_limit_reaches_the_container_whole(stack: Stack, endpoint: str, body: bytes) -> None:
    output, _ = outcome(stack, accept(stack, NAME, body, "sha"))
    assert output is not None
    assert json.loads(output) == {"length": len(body), "sha256": hashlib.sha256(body).hexdigest()}


@pytest.mark.parametrize("body", [b"a" * (LIMIT + 1), "\u00e9".encode() * (LIMIT // 2 + 1)], ids=["bytes", "characters"])
def test_a_body_over_the_limit_is_refused_at_once(stack: Stack, endpoint: str, body: bytes) -> None:
    assert f"{LIMIT} bytes" in _refusal(stack, Body=body)


def test_exactly_one_source_is_wanted(stack: Stack, endpoint: str) -> None:
    assert "not both" in _refusal(stack, Body=b"x", InputLocation="s3://any/key")
    assert "neither" in _refusal(stack)
    assert "neither" in _refusal(stack, Body=b"")
    assert "HEADRACE_INPUT_HOSTS" in _refusal(stack, InputLocation="https://example.com/key")


@pytest.mark.parametrize(
    "key", ["in/a b", 'in/{a}|"b"<c>\\^`', "in/\u65e5\u672c?x=1#y;z"], ids=["a space", "signs", "scripts"]
)
def test_whatever_key_an_object_has_it_can_stand_for_the_body(stack: Stack, endpoint: str, bucket: str, key: str) -> None:
    stack.client("s3").put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert outcome(stack, accept(stack, NAME, InputLocation=f"s3://{bucket}/{key}")) == (key.encode(), None)


def test_the_members_reach_the_container_and_its_type_the_object(stack: Stack, endpoint: str) -> None:
    members = {"ContentType": "text/csv; header=present", "Accept": "application/x-npy"}
    accepted = accept(stack, NAME, b"a,b", "headers", **members)
    output, _ = outcome(stack, accepted)
    assert output is not None
    seen = json.loads(output)
    assert seen["content-type"] == "text/csv; header=present"
    assert seen["accept"] == "application/x-npy"
    assert seen["x-amzn-sagemaker-inference-id"] == accepted["InferenceId"]
    bucket, _, key = accepted["OutputLocation"].removeprefix("s3://").partition("/")
    assert stack.client("s3").head_object(Bucket=bucket, Key=key)["ContentType"] == "application/json"


def test_one_inference_id_used_twice_keeps_both_results(stack: Stack, endpoint: str) -> None:
    accepted = [accept(stack, NAME, body, InferenceId="../twice") for body in (b"one", b"two")]
    assert [outcome(stack, each) for each in accepted] == [(b"one", None), (b"two", None)]


@pytest.mark.parametrize("extension", ["..", "../../x", "a/../b", "a/./b", "a//b", "s3://other"])
def test_an_extension_never_leaves_the_output_path(stack: Stack, endpoint: str, extension: str) -> None:
    assert "xtension" in _refusal(stack, Body=b"x", S3OutputPathExtension=extension)


def test_extension_and_filename_shape_the_place(stack: Stack, endpoint: str, bucket: str) -> None:
    accepted = accept(stack, NAME, b"x", S3OutputPathExtension="/a/b/", Filename="r.json")
    assert accepted["OutputLocation"] == f"s3://{bucket}/out/a/b/r.json"
    assert outcome(stack, accepted) == (b"x", None)


@pytest.mark.parametrize("filename", ["..", ".a", "a..b", "a.b.c", "a/b", "x" * 33])
def test_a_filename_is_only_a_name(stack: Stack, endpoint: str, filename: str) -> None:
    assert "'filename'" in _refusal(stack, Body=b"x", Filename=filename)


@pytest.mark.parametrize(
    "members",
    [
        {"RequestTTLSeconds": 59},
        {"RequestTTLSeconds": 21_601},
        {"InvocationTimeoutSeconds": 0},
        {"InvocationTimeoutSeconds": 3601},
        {"InferenceId": "x" * 65},
    ],
)
def test_limits_are_kept(stack: Stack, endpoint: str, members: dict[str, Any]) -> None:
    assert "failed to satisfy constraint" in _refusal(stack, Body=b"x", **members)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("http:400", b'client error (400) from model with message "the model says no"'),
        ("http:400:nul", 'client error (400) from model with message "no\ufffdno"'.encode()),
        ("http:400:nonutf8", b"client error (400)"),
        ("http:400:10MB", b"client error (400)"),
        ("http:500", b"server error (500)"),
        ("redirect:http://127.0.0.1:1/", b"server error (302)"),
        ("lie", b"closed before the answer was complete"),
        ("garbage", b"not HTTP"),
    ],
)
def test_a_failure_is_told_once_in_its_place(stack: Stack, endpoint: str, mode: str, words: bytes) -> None:
    output, failure = outcome(stack, accept(stack, NAME, b"x", mode))
    assert output is None
    assert failure is not None
    assert words in failure
    assert len(failure) < 8192


@pytest.mark.parametrize("mode", ["hang:600", "drip"])
def test_the_time_allowed_is_for_the_whole_call_and_frees_the_slot(stack: Stack, endpoint: str, mode: str) -> None:
    slow = accept(stack, NAME, b"x", mode, InvocationTimeoutSeconds=2)
    behind = [accept(stack, NAME, b"next") for _ in range(3)]
    assert [outcome(stack, each) for each in behind] == [(b"next", None)] * 3
    output, failure = outcome(stack, slow)
    assert output is None
    assert failure == b"The model gave no whole answer within 2 s (InvocationTimeoutSeconds)."


def test_a_container_that_dies_costs_its_own_request_alone(stack: Stack, endpoint: str) -> None:
    deadly = accept(stack, NAME, b"x", "crash")
    behind = [accept(stack, NAME, b"fine") for _ in range(10)]
    assert [outcome(stack, each, 90) for each in behind] == [(b"fine", None)] * 10
    output, failure = outcome(stack, deadly, 90)
    assert output is None
    assert failure is not None
    assert b"It was tried 3 times." in failure


def test_a_failure_that_cannot_be_told_ends_the_request_all_the_same(stack: Stack, bucket: str) -> None:
    create_endpoint(stack, "untold", asynchronous={}, bucket="no-such-bucket-here")
    in_service(stack, "untold")
    runtime = stack.client("sagemaker-runtime")
    for mode in ("http:400", "echo"):
        accepted = runtime.invoke_endpoint_async(EndpointName="untold", Body=b"x", CustomAttributes=f"mode={mode}")
        inference_id = accepted["InferenceId"]
        assert stack.wait(lambda inference_id=inference_id: _state_of(stack, inference_id) == "failed")
    delete_endpoint(stack, "untold")


def test_the_wrong_kind_of_call_is_refused(stack: Stack, endpoint: str) -> None:
    with pytest.raises(ClientError, match="does not support this inference type"):
        stack.client("sagemaker-runtime").invoke_endpoint(EndpointName=endpoint, Body=b"x")


def _state_of(stack: Stack, inference_id: str) -> str:
    query = "SELECT state FROM invocations_asyncinvocation WHERE inference_id = %s"
    with stack.database() as database:
        return str(database.execute(query, [inference_id]).fetchall()[0][0])
