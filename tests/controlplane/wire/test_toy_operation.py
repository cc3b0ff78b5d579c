"""A request through the whole door to a handler of a toy: operations that the service model has and nobody uses here."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.parsers import create_parser

from controlplane.core.errors import ResourceLimitExceeded
from controlplane.wire.doors import BODY_LIMIT_BYTES, Surroundings, WireRequest, json11
from controlplane.wire.errors import WireResponse
from controlplane.wire.model import load_service
from controlplane.wire.registry import Context, handler_of, operation, operation_names
from tests.controlplane.auth.test_sigv4 import KEY, signed, with_header

CREATED_AT = datetime(2026, 11, 1, 12, 0, 0, 123987, tzinfo=UTC)
seen: list[tuple[Context, Mapping[str, Any]]] = []


@operation("DescribeCodeRepository")
def describe_code_repository(context: Context, params: Mapping[str, Any]) -> dict[str, Any]:
    """Answer by the name that is asked for."""
    seen.append((context, params))
    name = params["CodeRepositoryName"]
    if name == "full":
        raise ResourceLimitExceeded("The shelf is full.", {"Shelf": 7})
    if name == "broken":
        raise ZeroDivisionError("a secret of the handler")
    if name == "lies":
        return {"Nope": 1}
    return {"CodeRepositoryName": name, "CodeRepositoryArn": "arn", "CreationTime": CREATED_AT, "GitConfig": None}


@operation("DeleteCodeRepository")
def delete_code_repository(context: Context, params: Mapping[str, Any]) -> dict[str, Any]:
    """An operation without an answer."""
    return {}


def ask(body: object, target: str = "SageMaker.DescribeCodeRepository", **changes: Any) -> WireResponse:
    """The answer to a signed request; `headers` are added after it was signed, `sent` replaces its body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = signed({"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"}, raw)
    now = datetime.strptime(str(request.header("x-amz-date")), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    for name, value in changes.get("headers", {}).items():
        request = with_header(request, name, value)
    around = Surroundings({KEY.access_key_id: KEY}.get, "us-east-1", now, "request-7", frozenset)
    return json11(WireRequest("POST", "/", "", request.headers, changes.get("sent", raw)), around)


def read(answer: WireResponse) -> dict[str, Any]:
    """The answer as botocore's parser gives it to a client."""
    shape = load_service("sagemaker").operation_model("DescribeCodeRepository").output_shape
    raw = {
        "status_code": answer.status,
        "headers": {name.lower(): value for name, value in answer.headers},
        "body": answer.body,
    }
    parsed: dict[str, Any] = create_parser("json").parse(raw, shape)
    return parsed


def test_a_good_request_reaches_its_handler_and_its_answer_the_client() -> None:
    seen.clear()
    answer = ask({"CodeRepositoryName": "repo", "Unheard": 1})
    ((context, params),) = seen
    assert params == {"CodeRepositoryName": "repo"}
    assert (context.account_id, context.access_key_id) == (KEY.account_id, KEY.access_key_id)
    assert (context.region, context.request_id) == ("us-east-1", "request-7")
    assert answer.status == 200
    assert dict(answer.headers) == {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": "request-7"}
    parsed = read(answer)
    assert parsed.pop("ResponseMetadata")["RequestId"] == "request-7"
    shown = CREATED_AT.replace(microsecond=123000)
    assert parsed == {"CodeRepositoryName": "repo", "CodeRepositoryArn": "arn", "CreationTime": shown}


def test_an_operation_without_output_answers_an_empty_body() -> None:
    answer = ask({"CodeRepositoryName": "repo"}, "SageMaker.DeleteCodeRepository")
    assert (answer.status, answer.body) == (200, b"")


def test_an_error_of_the_handler_is_answered_with_its_code_and_members() -> None:
    answer = ask({"CodeRepositoryName": "full"})
    assert answer.status == 400
    assert json.loads(answer.body) == {"__type": "ResourceLimitExceeded", "message": "The shelf is full.", "Shelf": 7}
    error = read(answer)["Error"]
    assert (error["Code"], error["Message"]) == ("ResourceLimitExceeded", "The shelf is full.")


@pytest.mark.parametrize("name", ["broken", "lies"])
def test_a_fault_of_the_handler_is_hidden_behind_the_request_id(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = ask({"CodeRepositoryName": name})
    assert answer.status == 500
    assert json.loads(answer.body) == {
        "__type": "InternalFailure",
        "message": "An internal error occurred; the log has it under request id request-7.",
    }
    assert "request request-7 failed" in caplog.text
    assert KEY.secret not in caplog.text


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (
            lambda: ask({}),
            "ValidationException",
            "1 validation error detected: Value null at 'codeRepositoryName' failed to satisfy constraint: "
            "Member must not be null",
        ),
        (lambda: ask(b"{"), "SerializationException", "The body is not valid JSON."),
        (
            lambda: ask({}, "SageMaker.CreateTrainingJob"),
            "UnknownOperationException",
            "The operation 'CreateTrainingJob' is not supported by Headrace.",
        ),
        (
            lambda: ask({}, "SageMaker.describecoderepository"),
            "UnknownOperationException",
            "The operation 'describecoderepository' is not supported by Headrace.",
        ),
        (
            lambda: ask({}, "SageMaker."),
            "UnknownOperationException",
            "The operation '' is not supported by Headrace.",
        ),
        (
            lambda: ask({}, "AnyScaleFrontendService.DescribeScalableTargets"),
            "UnknownOperationException",
            "X-Amz-Target must start with 'SageMaker.'.",
        ),
        (
            lambda: ask({"CodeRepositoryName": "a"}, headers={"x-amz-security-token": "t"}),
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
    ],
)
def test_what_does_not_reach_a_handler_is_told_why(answer: object, code: str, message: str) -> None:
    seen.clear()
    found: WireResponse = answer()  # type: ignore[operator]
    assert found.status == 400
    assert json.loads(found.body) == {"__type": code, "message": message}
    assert dict(found.headers)["x-amzn-ErrorType"] == code
    assert seen == []


def test_neither_an_altered_body_nor_another_target_reaches_a_handler() -> None:
    seen.clear()
    for answer in (
        ask({"CodeRepositoryName": "a"}, sent=b'{"CodeRepositoryName": "b"}'),
        ask({"CodeRepositoryName": "a"}, headers={"x-amz-target": "SageMaker.DeleteCodeRepository"}),
    ):
        assert json.loads(answer.body)["__type"] == "InvalidSignatureException"
    assert seen == []


def test_a_body_of_the_cap_is_read_and_one_byte_more_is_not() -> None:
    start = b'{"CodeRepositoryName": "repo"}'
    assert ask(start.ljust(BODY_LIMIT_BYTES)).status == 200
    answer = ask(start.ljust(BODY_LIMIT_BYTES + 1))
    assert (answer.status, json.loads(answer.body)["__type"]) == (413, "RequestEntityTooLargeException")


def test_an_operation_has_one_handler() -> None:
    with pytest.raises(AssertionError, match="operation DescribeCodeRepository has two handlers"):
        operation("DescribeCodeRepository")(delete_code_repository)
    assert handler_of("DescribeCodeRepository") is describe_code_repository
    assert operation("DescribeCodeRepository")(describe_code_repository) is describe_code_repository
    assert "DescribeCodeRepository" in operation_names()
