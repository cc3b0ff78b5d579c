"""The story: a preferred type out of capacity, a fallback, an asynchronous call, a scale-in that ends the fallback.

Everything is asked of the public API with boto3 alone; every step checks the value it shows and raises StoryFailed when
it is not the right one.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import ClientError

PREFERRED, FALLBACK = "ml.g5.2xlarge", "ml.g4dn.xlarge"
BUCKET = "headrace-demo"
NAME = "demo"
PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.1

Say = Callable[[str], None]


class StoryFailed(Exception):
    """A step did not end as it should."""


class Story:
    """One telling, against the API at `url`; `set_capacity` plays the operator whose hardware comes and goes."""

    def __init__(self, url: str, keys: dict[str, str], say: Say, set_capacity: Callable[[str, int], None]) -> None:
        session = boto3.Session(**keys, region_name="us-east-1")
        self._sagemaker = session.client("sagemaker", endpoint_url=url)
        self._runtime = session.client("sagemaker-runtime", endpoint_url=url)
        self._store = session.client("s3", endpoint_url=url)
        self._say = say
        self._set_capacity = set_capacity

    def tell(self) -> None:
        """Tell it from the beginning to the end, leaving nothing behind."""
        self._clean()
        self._ask_for_an_endpoint()
        self._call_it()
        self._grow_on_the_preferred_type()
        self._shrink_and_see_the_fallback_go_first()
        self._clean()
        self._say("Deleted, with everything it ran on.")

    def _ask_for_an_endpoint(self) -> None:
        self._say(f"1. Create an endpoint that prefers {PREFERRED}, which has no capacity, over {FALLBACK}.")
        self._set_capacity(PREFERRED, 0)
        self._set_capacity(FALLBACK, 2)
        self._store.create_bucket(Bucket=BUCKET)
        self._sagemaker.create_model(
            ModelName=NAME,
            PrimaryContainer={"Image": "headrace/reference:latest"},
            ExecutionRoleArn="arn:aws:iam::123456789012:role/demo",
        )
        self._sagemaker.create_endpoint_config(
            EndpointConfigName=NAME,
            ProductionVariants=[
                {
                    "VariantName": "main",
                    "ModelName": NAME,
                    "InitialInstanceCount": 1,
                    "InstancePools": [
                        {"InstanceType": PREFERRED, "Priority": 1},
                        {"InstanceType": FALLBACK, "Priority": 2},
                    ],
                }
            ],
            AsyncInferenceConfig={
                "OutputConfig": {"S3OutputPath": f"s3://{BUCKET}/out", "S3FailurePath": f"s3://{BUCKET}/failed"}
            },
        )
        started = time.monotonic()
        self._sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
        self._sagemaker.get_waiter("endpoint_in_service").wait(
            EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": PATIENCE_SECONDS}
        )
        self._say(f"   InService after {time.monotonic() - started:.1f} s, on {self._fleet()}.")
        _check(self._counts(), {PREFERRED: 0, FALLBACK: 1})

    def _call_it(self) -> None:
        self._say("2. Send an inline asynchronous request and fetch the answer.")
        body = b'{"question": "What carries water to a mill?"}'
        accepted = self._runtime.invoke_endpoint_async(EndpointName=NAME, Body=body, ContentType="application/json")
        _check(accepted["ResponseMetadata"]["HTTPStatusCode"], 202)
        bucket, _, key = accepted["OutputLocation"].removeprefix("s3://").partition("/")
        answer = self._wait(lambda: self._object(bucket, key))
        self._say(f"   {accepted['OutputLocation']} holds {answer['Body']!r} ({answer['ContentType']}).")
        _check(answer, {"Body": body, "ContentType": "application/json"})

    def _grow_on_the_preferred_type(self) -> None:
        self._say(f"3. {PREFERRED} comes back. Scale out to 2: a scale-out starts again at priority 1.")
        self._set_capacity(PREFERRED, 2)
        self._scale(2)
        self._say(f"   Now on {self._fleet()}.")
        _check(self._counts(), {PREFERRED: 1, FALLBACK: 1})

    def _shrink_and_see_the_fallback_go_first(self) -> None:
        self._say("4. Scale in to 1: the fallback goes first.")
        self._scale(1)
        self._say(f"   Now on {self._fleet()}.")
        _check(self._counts(), {PREFERRED: 1, FALLBACK: 0})

    def _scale(self, count: int) -> None:
        self._sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=NAME, DesiredWeightsAndCapacities=[{"VariantName": "main", "DesiredInstanceCount": count}]
        )
        self._wait(lambda: self._describe()["EndpointStatus"] == "InService")

    def _clean(self) -> None:
        """Delete what this story makes, as far as it is there."""
        _unless_missing(lambda: self._sagemaker.delete_endpoint(EndpointName=NAME))
        _unless_missing(lambda: self._sagemaker.delete_endpoint_config(EndpointConfigName=NAME))
        _unless_missing(lambda: self._sagemaker.delete_model(ModelName=NAME))
        self._wait(lambda: not self._exists())
        _unless_missing(self._empty_bucket)

    def _empty_bucket(self) -> None:
        for item in self._store.list_objects_v2(Bucket=BUCKET).get("Contents", []):
            self._store.delete_object(Bucket=BUCKET, Key=item["Key"])
        self._store.delete_bucket(Bucket=BUCKET)

    def _exists(self) -> bool:
        return bool(_unless_missing(self._describe))

    def _describe(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._sagemaker.describe_endpoint(EndpointName=NAME)
        return answer

    def _counts(self) -> dict[str, int]:
        pools = self._describe()["ProductionVariants"][0]["InstancePools"]
        return {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in pools}

    def _fleet(self) -> str:
        return ", ".join(f"{count} x {name}" for name, count in self._counts().items())

    def _object(self, bucket: str, key: str) -> dict[str, Any] | None:
        found = _unless_missing(lambda: self._store.get_object(Bucket=bucket, Key=key))
        return {"Body": found["Body"].read(), "ContentType": found["ContentType"]} if found else None

    def _wait(self, look: Callable[[], Any]) -> Any:
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        while time.monotonic() < deadline:
            if found := look():
                return found
            pause.wait(LOOK_SECONDS)
        raise StoryFailed(f"what was waited for did not happen within {PATIENCE_SECONDS} s")


def _unless_missing(call: Callable[[], Any]) -> Any:
    """What the call answers; None when the thing it is about does not exist."""
    try:
        return call()
    except ClientError as error:
        if error.response["Error"]["Code"] in ("ValidationException", "NoSuchKey", "NoSuchBucket", "404"):
            return None
        raise


def _check(found: object, expected: object) -> None:
    if found != expected:
        raise StoryFailed(f"expected {expected!r}, found {found!r}")
