"""Streams, chats, sessions, shadows and captures through a whole Headrace, with unmodified clients."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest
from botocore.exceptions import EventStreamError

from tests.system.stack import PLENTY, REPOSITORY, Stack, create_endpoint, delete_endpoint, in_service

HELLO: Any = [{"role": "user", "content": "hello to you"}]


def token_of(stack: Stack) -> str:
    """What `manage.py token` prints."""
    command = [sys.executable, "manage.py", "token", "--seconds", "600"]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment(stack), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def environment(stack: Stack) -> dict[str, str]:
    """What an operator's shell knows: where the installation's data are."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_"))}
    return {**clean, "HEADRACE_DATA_DIR": str(stack.data_dir)}


def test_streams_and_chats_through_the_front_door(stack: Stack) -> None:
    create_endpoint(stack, "talk")
    in_service(stack, "talk")
    stream = stack.client("sagemaker-runtime").invoke_endpoint_with_response_stream
    answer = stream(EndpointName="talk", Body=b"abc" * 1000, ContentType="text/plain")
    assert b"".join(event["PayloadPart"]["Bytes"] for event in answer["Body"]) == b"abc" * 1000
    broken = stream(EndpointName="talk", Body=b"", CustomAttributes="mode=cut-after:3")
    with pytest.raises(EventStreamError, match="StreamBroken"):
        list(broken["Body"])
    with openai.OpenAI(base_url=f"{stack.url}/endpoints/talk/openai/v1", api_key=token_of(stack)) as client:
        chunks = list(client.chat.completions.create(model="", messages=HELLO, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello to you"
        assert [model.id for model in client.models.list()] == ["reference"]
    delete_endpoint(stack, "talk")


def test_a_session_opens_stays_and_closes(stack: Stack) -> None:
    create_endpoint(stack, "stay", count=2)
    in_service(stack, "stay")
    runtime = stack.client("sagemaker-runtime")
    common = {"EndpointName": "stay", "CustomAttributes": "mode=session:60"}
    session = runtime.invoke_endpoint(SessionId="NEW_SESSION", Body=b"", **common)["NewSessionId"].partition(";")[0]
    for calls in range(2, 8):
        assert json.loads(runtime.invoke_endpoint(SessionId=session, Body=b"", **common)["Body"].read())["calls"] == calls
    assert runtime.invoke_endpoint(SessionId=session, Body=b"CLOSE", **common)["ClosedSessionId"] == session
    with pytest.raises(runtime.exceptions.ClientError, match="has ended"):
        runtime.invoke_endpoint(SessionId=session, Body=b"", **common)
    delete_endpoint(stack, "stay")


def test_a_shadow_is_called_and_both_are_captured(stack: Stack, bucket: str, tmp_path: Path) -> None:
    sagemaker, runtime, store = (stack.client(name) for name in ("sagemaker", "sagemaker-runtime", "s3"))
    for name in ("present", "future"):
        environment = {"CHAOS_NAME": name}
        sagemaker.create_model(ModelName=name, PrimaryContainer={"Image": stack.image, "Environment": environment})
    present, future = (
        {"VariantName": name, "ModelName": name, "InitialInstanceCount": 1, "InstanceType": PLENTY}
        for name in ("present", "future")
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName="compared",
        ProductionVariants=[present],
        ShadowProductionVariants=[future],
        DataCaptureConfig={
            "InitialSamplingPercentage": 100,
            "DestinationS3Uri": f"s3://{bucket}/compared",
            "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
            "CaptureContentTypeHeader": {"CsvContentTypes": ["text/plain"]},
        },
    )
    sagemaker.create_endpoint(EndpointName="compared", EndpointConfigName="compared")
    described = in_service(stack, "compared")
    assert [each["VariantName"] for each in described["ShadowProductionVariants"]] == ["future"]
    assert described["DataCaptureConfig"]["CaptureStatus"] == "Started"
    answer = runtime.invoke_endpoint(
        EndpointName="compared", Body=b"who?", ContentType="text/plain", CustomAttributes="mode=name", InferenceId="id-7"
    )
    assert (answer["Body"].read(), answer["InvokedProductionVariant"]) == (b"present", "present")

    def captured() -> dict[str, Any] | None:
        keys = [each["Key"] for each in store.list_objects_v2(Bucket=bucket, Prefix="compared/").get("Contents", [])]
        found = {}
        for key in keys:
            with suppress(store.exceptions.NoSuchKey):  # it is listed a moment before it can be read
                found[key.split("/")[2]] = json.loads(store.get_object(Bucket=bucket, Key=key)["Body"].read())
        return found if len(found) == 2 else None

    lines = stack.wait(captured)
    for name in ("present", "future"):
        line = lines[name]
        assert line["captureData"]["endpointInput"]["data"] == "who?"
        assert line["captureData"]["endpointOutput"]["data"] == name
        assert line["eventMetadata"]["inferenceId"] == "id-7"
    sagemaker.delete_endpoint(EndpointName="compared")
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName="compared", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
