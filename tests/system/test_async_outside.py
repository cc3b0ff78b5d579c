"""Asynchronous calls and what is around them, by unmodified clients: payloads in the store, topics, sleep and waking."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from tests import aws
from tests.system.asynchronous import outcome
from tests.system.stack import Stack, create_endpoint, in_service, running

BUCKET = "outside"


class Heard:
    """A topic of another implementation's, and a queue that hears it."""

    def __init__(self, url: str, name: str) -> None:
        parts: dict[str, Any] = {"endpoint_url": url, "region_name": "us-east-1"}
        sns, self._sqs = aws.client("sns", **parts), aws.client("sqs", **parts)
        self.topic = sns.create_topic(Name=name)["TopicArn"]
        self._queue = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=arn)

    def next(self, stack: Stack) -> dict[str, Any]:
        """The next message, parsed."""

        def look() -> dict[str, Any] | None:
            found = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=1).get("Messages", [])
            if not found:
                return None
            self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=found[0]["ReceiptHandle"])
            message: dict[str, Any] = json.loads(json.loads(found[0]["Body"])["Message"])
            return message

        return stack.wait(look) or {}


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    """Where topics are."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(scope="module")
def stack(cloud: str) -> Iterator[Stack]:
    """A Headrace that speaks to that cloud's topics."""
    with running(HEADRACE_SNS_ENDPOINT_URL=cloud) as started:
        started.client("s3").create_bucket(Bucket=BUCKET)
        yield started


def test_topics_hear_of_the_endpoint_and_of_each_outcome(stack: Stack, cloud: str) -> None:
    done, broken = Heard(cloud, "done"), Heard(cloud, "broken")
    notification = {
        "SuccessTopic": done.topic,
        "ErrorTopic": broken.topic,
        "IncludeInferenceResponseIn": ["SUCCESS_NOTIFICATION_TOPIC"],
    }
    create_endpoint(stack, "told", bucket=BUCKET, output={"NotificationConfig": notification})
    described = in_service(stack, "told")
    assert described["AsyncInferenceConfig"]["OutputConfig"]["NotificationConfig"] == notification
    for heard in (done, broken):
        assert heard.next(stack)["eventName"] == "TestNotification"
    runtime = stack.client("sagemaker-runtime")
    accepted = runtime.invoke_endpoint_async(EndpointName="told", Body=b"hello", ContentType="text/plain")
    said = done.next(stack)
    assert set(said) == {
        *("awsRegion", "eventTime", "receivedTime", "invocationStatus", "requestParameters", "responseParameters"),
        *("responseBody", "inferenceId", "eventVersion", "eventSource", "eventName"),
    }
    assert (said["invocationStatus"], said["inferenceId"]) == ("Completed", accepted["InferenceId"])
    assert said["responseParameters"] == {"contentType": "text/plain", "outputLocation": accepted["OutputLocation"]}
    assert base64.b64decode(said["responseBody"]["content"]) == b"hello"
    failed = runtime.invoke_endpoint_async(EndpointName="told", Body=b"x", CustomAttributes="mode=http:400")
    said = broken.next(stack)
    assert (said["invocationStatus"], said["inferenceId"]) == ("Failed", failed["InferenceId"])
    assert "client error (400)" in said["failureReason"]
    assert said["failureLocation"] == failed["FailureLocation"]


def test_a_topic_that_does_not_exist_fails_the_endpoint_with_a_reason(stack: Stack) -> None:
    notification = {"ErrorTopic": "arn:aws:sns:us-east-1:123456789012:no-such-topic"}
    create_endpoint(stack, "untold", bucket=BUCKET, output={"NotificationConfig": notification})
    sagemaker = stack.client("sagemaker")
    stack.wait(lambda: sagemaker.describe_endpoint(EndpointName="untold")["EndpointStatus"] == "Failed")
    reason = sagemaker.describe_endpoint(EndpointName="untold")["FailureReason"]
    assert "sns:Publish" in reason
    assert "arn:aws:iam::123456789012:role/any" in reason


def test_an_endpoint_asleep_is_woken_by_a_payload_in_the_store(stack: Stack) -> None:
    create_endpoint(stack, "sleeper", bucket=BUCKET, tags={"headrace:wake": "1"})
    in_service(stack, "sleeper")
    sagemaker, runtime = stack.client("sagemaker"), stack.client("sagemaker-runtime")
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="sleeper", DesiredWeightsAndCapacities=[{"VariantName": "main", "DesiredInstanceCount": 0}]
    )
    in_service(stack, "sleeper")
    body = bytes(range(256)) * 40_000
    stack.client("s3").put_object(Bucket=BUCKET, Key="in/large", Body=body)
    accepted = runtime.invoke_endpoint_async(EndpointName="sleeper", InputLocation=f"s3://{BUCKET}/in/large")
    output, failure = outcome(stack, accepted)
    assert failure is None
    assert output == body
    missing = runtime.invoke_endpoint_async(EndpointName="sleeper", InputLocation=f"s3://{BUCKET}/in/missing")
    output, failure = outcome(stack, missing)
    assert output is None
    assert b"There is no object" in (failure or b"")


def test_keys_are_refused_by_name_with_a_store_that_has_none(stack: Stack) -> None:
    with pytest.raises(Exception, match="KmsKeyId has no effect with the embedded store"):
        create_endpoint(stack, "encrypted", bucket=BUCKET, output={"KmsKeyId": "key"})
