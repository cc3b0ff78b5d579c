"""What topics are told."""

import base64
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.invocations.delivery import Delivery
from controlplane.invocations.messages import ANSWER_LIMIT_BYTES, TEST, Note, Request, of_failure, of_success
from tests.fakes.clock import START

REQUEST = Request(
    region="us-east-1",
    endpoint_name="later",
    inference_id="mine",
    content_type="text/csv",
    accept="application/json",
    input_location="s3://in/a",
    output_location="s3://out/b",
    failure_location="s3://failed/c",
    accepted_at=START,
    ended_at=START + timedelta(seconds=1.5),
)
DONE, BROKEN = "arn:aws:sns:us-east-1:123456789012:done", "arn:aws:sns:us-east-1:123456789012:broken"
BOTH = Delivery(success_topic=DONE, error_topic=BROKEN)
TALKATIVE = replace(BOTH, includes=("SUCCESS_NOTIFICATION_TOPIC", "ERROR_NOTIFICATION_TOPIC"))
FRAME = {
    "awsRegion": "us-east-1",
    "eventTime": "2026-11-01T12:00:01.500Z",
    "receivedTime": "2026-11-01T12:00:00.000Z",
    "requestParameters": {
        "accept": "application/json",
        "contentType": "text/csv",
        "endpointName": "later",
        "inputLocation": "s3://in/a",
    },
    "inferenceId": "mine",
    "eventVersion": "1.0",
    "eventSource": "aws:sagemaker",
    "eventName": "InferenceResult",
}


def said(notes: list[Note], topic: str) -> dict[str, Any]:
    (note,) = notes
    assert note.topic == topic
    found: dict[str, Any] = json.loads(note.message)
    return found


def test_a_success_is_told_with_its_output() -> None:
    assert said(of_success(REQUEST, BOTH, "application/json", b"{}"), DONE) == {
        **FRAME,
        "invocationStatus": "Completed",
        "responseParameters": {"contentType": "application/json", "outputLocation": "s3://out/b"},
    }


def test_a_failure_is_told_with_its_reason() -> None:
    assert said(of_failure(REQUEST, BOTH, "model_server_error", "It broke.", b"oops"), BROKEN) == {
        **FRAME,
        "invocationStatus": "Failed",
        "failureReason": "ClientError: It broke.",
        "failureLocation": "s3://failed/c",
    }


def test_what_is_not_there_is_left_out() -> None:
    inline = replace(REQUEST, input_location="", accept="", content_type="", failure_location="")
    failed = said(of_failure(inline, BOTH, "output_store", "Away.", None), BROKEN)
    assert failed["requestParameters"] == {"endpointName": "later"}
    assert failed["failureReason"] == "ServiceError: Away."
    assert "failureLocation" not in failed


def test_nobody_is_told_without_a_topic() -> None:
    assert of_success(REQUEST, Delivery(error_topic=BROKEN), "", b"") == []
    assert of_failure(REQUEST, Delivery(success_topic=DONE), "expired", "", None) == []


def test_the_answer_is_told_where_that_is_asked_for_and_it_is_small_enough() -> None:
    body = bytes(range(256)) * 512
    assert len(body) == ANSWER_LIMIT_BYTES
    success = said(of_success(REQUEST, TALKATIVE, "", body), DONE)["responseBody"]
    assert (base64.b64decode(success["content"]), success["encoding"]) == (body, "BASE64")
    assert success["message"] == "The whole answer is at s3://out/b."
    failure = said(of_failure(REQUEST, TALKATIVE, "x", "", b"no"), BROKEN)["responseBody"]
    assert base64.b64decode(failure["content"]) == b"no"
    assert failure["message"] == "Why it failed is at s3://failed/c."  # in words, and not the whole of the answer
    nowhere = said(of_failure(replace(REQUEST, failure_location=""), TALKATIVE, "x", "", b"no"), BROKEN)["responseBody"]
    assert nowhere["message"] == "The answer is kept nowhere else."
    for answer in (body + b"x", None):
        assert "responseBody" not in said(of_success(REQUEST, TALKATIVE, "", answer), DONE)


def test_a_test_is_told_in_three_words() -> None:
    assert json.loads(TEST) == {"eventVersion": "1.0", "eventSource": "aws:sagemaker", "eventName": "TestNotification"}


@given(st.text(max_size=200))
def test_any_text_is_told_as_ascii_without_a_nul(text: str) -> None:
    (note,) = of_failure(replace(REQUEST, inference_id=text), TALKATIVE, "x", text, b"")
    assert note.message.isascii()
    assert "\x00" not in note.message


@pytest.mark.parametrize("delivery", [Delivery(), BOTH, TALKATIVE, Delivery(kms_key_id="key")])
def test_a_delivery_survives_being_stored(delivery: Delivery) -> None:
    assert Delivery.of(json.loads(json.dumps(delivery.document))) == delivery


def test_a_delivery_is_read_from_a_configuration() -> None:
    notification = {"SuccessTopic": DONE, "ErrorTopic": DONE, "IncludeInferenceResponseIn": ["SUCCESS_NOTIFICATION_TOPIC"]}
    found = Delivery.of_config({"OutputConfig": {"KmsKeyId": "key", "NotificationConfig": notification}})
    assert found == Delivery("key", DONE, DONE, ("SUCCESS_NOTIFICATION_TOPIC",))
    assert found.topics == (DONE,)
    assert Delivery.of_config({"OutputConfig": {}}).document == {}
