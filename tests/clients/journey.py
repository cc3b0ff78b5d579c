"""`python journey.py ADDRESS BUCKET`, the token in HEADRACE_TOKEN: the main journey, by the generated package alone.

It knows nothing of the repository: what it imports was made of the document. It prints what it saw as JSON.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

from headrace_client import AuthenticatedClient, models
from headrace_client import types as kinds
from headrace_client.api.async_requests import describe_async_request, get_async_request_output, list_async_requests
from headrace_client.api.endpoint_configs import create_endpoint_config, delete_endpoint_config
from headrace_client.api.endpoints import (
    create_endpoint,
    delete_endpoint,
    describe_endpoint,
    explain_endpoint,
    list_endpoint_events,
    list_endpoints,
)
from headrace_client.api.invocations import invoke_endpoint_async
from headrace_client.api.models import create_model, delete_model, describe_model
from httpx import Timeout

NAME = "generated-python"
BODY = bytes(range(256))
SECONDS = 60
"""For each answer, and for each thing that is waited for."""


def main(address: str, bucket: str) -> dict[str, Any]:
    """The journey; whatever is not as it must be raises AssertionError."""
    client = AuthenticatedClient(base_url=address, token=os.environ["HEADRACE_TOKEN"], timeout=Timeout(SECONDS))
    make(client, bucket)
    described = until(lambda: find(client), lambda found: found.endpoint_status == "InService")
    assert described.production_variants[0].current_instance_count == 1
    told = explain_endpoint.sync(NAME, client=client)
    assert isinstance(told, models.Explanation)
    events = list_endpoint_events.sync(NAME, client=client)
    assert isinstance(events, models.EventList)
    answer = call(client)
    delete(client)
    return {
        "created_at": described.creation_time.isoformat(),
        "pools": [pool.to_dict() for pool in described.production_variants[0].instance_pools],
        "ladder": [step.rung.instance_type for step in told.variants[0].ladder],
        "reasons": [event.reason for event in events.events],
        "answer": answer.hex(),
        "is_same": answer == BODY,
    }


def make(client: AuthenticatedClient, bucket: str) -> None:
    """A model, a configuration with a fallback, and the endpoint."""
    container = models.ContainerDefinitionRequest(image="headrace/reference:latest")
    made = create_model.sync(client=client, body=models.CreateModelRequest(model_name=NAME, primary_container=container))
    assert isinstance(made, models.CreateModelResponse), made
    assert isinstance(describe_model.sync(NAME, client=client), models.DescribeModelResponse)
    again = create_model.sync_detailed(
        client=client, body=models.CreateModelRequest(model_name=NAME, primary_container=container)
    )
    assert (again.status_code, type(again.parsed).__name__) == (400, "ResourceError"), again
    variant = models.ProductionVariantRequest(
        variant_name="main",
        model_name=NAME,
        initial_instance_count=1,
        instance_pools=[
            models.InstancePoolRequest(instance_type="ml.g5.2xlarge", priority=1),
            models.InstancePoolRequest(instance_type="ml.m5.large", priority=2),
        ],
    )
    paths = models.AsyncInferenceOutputConfigRequest(
        s3_output_path=f"s3://{bucket}/out", s3_failure_path=f"s3://{bucket}/failed"
    )
    config = models.CreateEndpointConfigRequest(
        endpoint_config_name=NAME,
        production_variants=[variant],
        async_inference_config=models.AsyncInferenceConfigRequest(output_config=paths),
    )
    assert isinstance(create_endpoint_config.sync(client=client, body=config), models.CreateEndpointConfigResponse)
    wish = models.CreateEndpointRequest(endpoint_name=NAME, endpoint_config_name=NAME)
    assert isinstance(create_endpoint.sync(client=client, body=wish), models.CreateEndpointResponse)


def find(client: AuthenticatedClient) -> models.DescribeEndpointResponse:
    """The endpoint as it is described."""
    found = describe_endpoint.sync(NAME, client=client)
    assert isinstance(found, models.DescribeEndpointResponse), found
    return found


def call(client: AuthenticatedClient) -> bytes:
    """Queue a request with its body inline, wait for it, and fetch its answer."""
    accepted = invoke_endpoint_async.sync_detailed(
        NAME, client=client, body=kinds.File(payload=BytesIO(BODY)), x_amzn_sage_maker_content_type="application/x-bytes"
    )
    assert accepted.status_code == 202, accepted
    assert accepted.headers["X-Amzn-SageMaker-OutputLocation"].startswith("s3://")
    assert isinstance(accepted.parsed, models.InvokeEndpointAsyncResponse202)
    page = list_async_requests.sync(client=client, endpoint_name=NAME, inference_id=accepted.parsed.inference_id)
    assert isinstance(page, models.AsyncRequestPage), page
    [row] = page.async_requests

    def look() -> models.AsyncRequestStory:
        story = describe_async_request.sync(row.request_id, client=client)
        assert isinstance(story, models.AsyncRequestStory), story
        return story

    story = until(look, lambda found: found.async_request.status == "completed")
    assert story.timeline[-1].sentence
    output = get_async_request_output.sync(row.request_id, client=client)
    assert isinstance(output, kinds.File), output
    return bytes(output.payload.read())


def delete(client: AuthenticatedClient) -> None:
    """Delete everything and see it gone."""
    assert delete_endpoint.sync_detailed(NAME, client=client).status_code == 204

    def names() -> list[str]:
        found = list_endpoints.sync(client=client, name_contains=NAME)
        assert isinstance(found, models.ListEndpointsResponse), found
        return [each.endpoint_name for each in found.endpoints]

    until(names, lambda found: found == [])
    assert delete_endpoint_config.sync_detailed(NAME, client=client).status_code == 204
    assert delete_model.sync_detailed(NAME, client=client).status_code == 204
    assert describe_model.sync_detailed(NAME, client=client).status_code == 400


def until(look: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """What `look` finds once it is so."""
    deadline, pause = time.monotonic() + SECONDS, threading.Event()
    while True:
        is_last = time.monotonic() >= deadline
        if is_so(found := look()):
            return found
        assert not is_last, found
        pause.wait(0.2)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
