"""Routing strategies as a client meets them: boto3 unmodified, engine simulators as containers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.system.stack import PLENTY, Stack, delete_endpoint, in_service

PREFIX_AWARE = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 1024, "ConcurrencyThreshold": 8},
}


def create(stack: Stack, name: str, routing: dict[str, Any]) -> None:
    """Three engines behind one endpoint."""
    sagemaker = stack.client("sagemaker")
    container = {"Image": "headrace/engine:latest", "Environment": {"ENGINE_TIME_SCALE": "0.05"}}
    sagemaker.create_model(ModelName=name, PrimaryContainer=container)
    variant = {"VariantName": "main", "ModelName": name, "InitialInstanceCount": 3, "InstanceType": PLENTY}
    sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[{**variant, "InitialVariantWeight": 1.0, "RoutingConfig": routing}]
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


def cached(stack: Stack, name: str, text: str, **members: Any) -> int:
    """How many tokens of a prompt the engine that answered had cached."""
    asked = {"messages": [{"role": "user", "content": text}], "max_tokens": 2}
    answer = stack.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=name, ContentType="application/json", Body=json.dumps(asked), **members
    )
    return int(json.loads(answer["Body"].read())["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.fixture(scope="module")
def endpoint(stack: Stack) -> Iterator[str]:
    """An endpoint that routes by the prompt's beginning, in service."""
    create(stack, "prefix", PREFIX_AWARE)
    described = in_service(stack, "prefix")
    assert described["ProductionVariants"][0]["RoutingConfig"] == PREFIX_AWARE
    yield "prefix"
    delete_endpoint(stack, "prefix")


def test_prompts_that_begin_alike_find_their_beginning_cached(stack: Stack, endpoint: str) -> None:
    beginnings = [f"{number} once upon a time " * 80 for number in range(5)]
    assert [cached(stack, endpoint, beginning) for beginning in beginnings] == [0] * 5
    follow_ups = [cached(stack, endpoint, f"{beginning}, then {turn}") for beginning in beginnings for turn in range(3)]
    assert min(follow_ups) > 300
    tenants = [cached(stack, endpoint, beginnings[0], PrefixAwareId=f"tenant-{number}") for number in range(12)]
    assert 0 in tenants


def test_an_update_changes_the_strategy(stack: Stack, endpoint: str) -> None:
    update = {"RoutingStrategy": "KV_AWARE"}
    sagemaker = stack.client("sagemaker")
    variant = {"VariantName": "main", "ModelName": "prefix", "InitialInstanceCount": 3, "InstanceType": PLENTY}
    sagemaker.create_endpoint_config(EndpointConfigName="kv", ProductionVariants=[{**variant, "RoutingConfig": update}])
    sagemaker.update_endpoint(EndpointName=endpoint, EndpointConfigName="kv")
    assert in_service(stack, endpoint)["ProductionVariants"][0]["RoutingConfig"] == update
    assert cached(stack, endpoint, "hello") == 0
    sagemaker.delete_endpoint_config(EndpointConfigName="kv")


def test_half_a_configuration_is_refused_by_name(stack: Stack) -> None:
    half = {**PREFIX_AWARE, "PrefixAwareRoutingConfig": {"PrefixLength": 1024}}
    with pytest.raises(ClientError, match="ConcurrencyThreshold") as refused:
        create(stack, "half", half)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
