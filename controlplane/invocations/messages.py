"""The messages that topics get (contract, control plane 8.5). Pure: what to say, not how to send it."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.invocations.delivery import ERROR_TOPIC_GETS_ANSWER, SUCCESS_TOPIC_GETS_ANSWER, Delivery

ANSWER_LIMIT_BYTES = 128 * 1024
"""A larger answer is not put into a message: it is in the store alone."""

TEST = json.dumps(
    {"eventVersion": "1.0", "eventSource": "aws:sagemaker", "eventName": "TestNotification"}, separators=(",", ":")
)

_CALLERS = frozenset(
    {
        "model_client_error",
        "model_server_error",
        "timeout",
        "input_missing",
        "input_refused",
        "input_too_large",
        "expired",
        "endpoint_deleted",
        "cancelled",
    }
)
"""Failures that the caller or the model is at fault for; the others are told as this service's own."""


@dataclass(frozen=True)
class Request:
    """What a message says of its request; blank members are left out."""

    region: str
    endpoint_name: str
    inference_id: str
    content_type: str
    accept: str
    input_location: str
    output_location: str
    failure_location: str
    accepted_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class Note:
    """A message and its topic."""

    topic: str
    message: str


def of_success(request: Request, delivery: Delivery, content_type: str, answer: bytes | None) -> list[Note]:
    """The message of a completed request, if anybody is to hear it; `answer` is the model's, None when it is too large."""
    if not delivery.success_topic:
        return []
    said = {
        **_frame(request, "Completed"),
        "responseParameters": _present(contentType=content_type, outputLocation=request.output_location),
    }
    if SUCCESS_TOPIC_GETS_ANSWER in delivery.includes:
        said |= _body(answer, f"The whole answer is at {request.output_location}.")
    return [Note(delivery.success_topic, _text(said))]


def of_failure(request: Request, delivery: Delivery, kind: str, text: str, answer: bytes | None) -> list[Note]:
    """The message of a request that failed or expired; `answer` is the model's own, None when it gave none."""
    if not delivery.error_topic:
        return []
    side = "ClientError" if kind in _CALLERS else "ServiceError"
    said = {**_frame(request, "Failed"), "failureReason": f"{side}: {text}"}
    said |= _present(failureLocation=request.failure_location)
    if ERROR_TOPIC_GETS_ANSWER in delivery.includes:
        where = request.failure_location
        said |= _body(answer, f"Why it failed is at {where}." if where else "The answer is kept nowhere else.")
    return [Note(delivery.error_topic, _text(said))]


def _frame(request: Request, status: str) -> dict[str, Any]:
    asked = _present(
        accept=request.accept,
        contentType=request.content_type,
        endpointName=request.endpoint_name,
        inputLocation=request.input_location,
    )
    return {
        "awsRegion": request.region,
        "eventTime": _time(request.ended_at),
        "receivedTime": _time(request.accepted_at),
        "invocationStatus": status,
        "requestParameters": asked,
        "inferenceId": request.inference_id,
        "eventVersion": "1.0",
        "eventSource": "aws:sagemaker",
        "eventName": "InferenceResult",
    }


def _body(answer: bytes | None, message: str) -> dict[str, Any]:
    """The answer in the message, where there is one that is small enough; `message` says where more is."""
    if answer is None or len(answer) > ANSWER_LIMIT_BYTES:
        return {}
    return {"responseBody": {"content": base64.b64encode(answer).decode(), "message": message, "encoding": "BASE64"}}


def _present(**members: str) -> dict[str, str]:
    return {name: value for name, value in members.items() if value}


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(said: Mapping[str, Any]) -> str:
    # No raw NUL can be in it: JSON writes it as an escape, and so PostgreSQL keeps the text.
    return json.dumps(said, separators=(",", ":"))
