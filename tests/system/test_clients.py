"""Unmodified clients: boto3 with its waiters and paginators, the AWS CLI, eight of them at once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.system.stack import PLENTY, SECOND, Stack, create_endpoint, delete_endpoint, in_service, objects_of


def test_the_whole_life_through_boto3(stack: Stack, bucket: str) -> None:
    sagemaker, runtime = stack.client("sagemaker"), stack.client("sagemaker-runtime")
    create_endpoint(stack, "life", environment={"CHAOS_NAME": "here"})
    assert sagemaker.describe_endpoint(EndpointName="life")["EndpointStatus"] == "Creating"
    described = in_service(stack, "life")
    assert described["ProductionVariants"][0]["CurrentInstanceCount"] == 1
    body = bytes(range(256)) * 1000
    answer = runtime.invoke_endpoint(EndpointName="life", Body=body, ContentType="application/x-npy")
    assert answer["Body"].read() == body
    assert answer["ContentType"] == "application/x-npy"
    assert answer["InvokedProductionVariant"] == "main"
    delete_endpoint(stack, "life")
    with pytest.raises(ClientError, match="Could not find endpoint"):
        sagemaker.describe_endpoint(EndpointName="life")


def test_paginators_show_everything_once(stack: Stack) -> None:
    sagemaker = stack.client("sagemaker")
    names = [f"page-{number:02}" for number in range(11)]
    for name in names:
        sagemaker.create_model(
            ModelName=name, PrimaryContainer={"Image": "any"}, ExecutionRoleArn="arn:aws:iam::123456789012:role/any"
        )
    first = sagemaker.list_models(NameContains="page-")
    assert len(first["Models"]) == 10
    assert "NextToken" in first
    pages = sagemaker.get_paginator("list_models").paginate(NameContains="PAGE-", SortBy="Name", SortOrder="Ascending")
    assert [model["ModelName"] for page in pages for model in page["Models"]] == names
    with pytest.raises(ClientError, match="Invalid pagination token"):
        sagemaker.list_models(NameContains="other", NextToken=first["NextToken"])
    for name in names:
        sagemaker.delete_model(ModelName=name)


def test_tags_are_merged_listed_and_deleted(stack: Stack) -> None:
    sagemaker = stack.client("sagemaker")
    arn = sagemaker.create_model(
        ModelName="tagged",
        PrimaryContainer={"Image": "any"},
        Tags=[{"Key": "a", "Value": "1"}],
    )["ModelArn"]
    merged = sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "2"}, {"Key": "b", "Value": ""}])
    assert merged["Tags"] == [{"Key": "a", "Value": "2"}, {"Key": "b", "Value": ""}]
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a", "absent"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": ""}]
    many = [{"Key": f"k{number}", "Value": ""} for number in range(50)]
    with pytest.raises(ClientError, match="50 tags"):
        sagemaker.add_tags(ResourceArn=arn, Tags=many)
    sagemaker.delete_model(ModelName="tagged")


def test_the_aws_cli_with_the_address_and_one_key_pair(stack: Stack, tmp_path: Path) -> None:
    def aws(*arguments: str) -> None:
        environment = {**stack.credentials, "PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_PAGER": ""}
        command = [str(Path(sys.executable).with_name("aws")), *arguments, "--output", "json"]
        subprocess.run(command, env=environment, capture_output=True, check=True)

    container, role = "Image=headrace/reference:latest", "arn:aws:iam::123456789012:role/any"
    aws("sagemaker", "create-model", "--model-name", "cli", "--primary-container", container, "--execution-role-arn", role)
    variant = f"VariantName=v,ModelName=cli,InitialInstanceCount=1,InstanceType={PLENTY}"
    aws("sagemaker", "create-endpoint-config", "--endpoint-config-name", "cli", "--production-variants", variant)
    aws("sagemaker", "create-endpoint", "--endpoint-name", "cli", "--endpoint-config-name", "cli")
    in_service(stack, "cli")
    aws("sagemaker", "wait", "endpoint-in-service", "--endpoint-name", "cli")
    (tmp_path / "in").write_bytes(b"hello")
    invoke = ("sagemaker-runtime", "invoke-endpoint", "--endpoint-name", "cli")
    aws(*invoke, "--body", f"fileb://{tmp_path}/in", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == b"hello"
    aws("s3", "mb", "s3://from-the-cli")
    aws("s3", "cp", str(tmp_path / "in"), "s3://from-the-cli/a/b")
    aws("s3", "cp", "s3://from-the-cli/a/b", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"hello"
    delete_endpoint(stack, "cli")


def test_of_eight_clients_that_create_one_endpoint_exactly_one_wins(stack: Stack) -> None:
    create_endpoint(stack, "contended")
    config = "contended"
    delete = stack.client("sagemaker")
    delete.delete_endpoint(EndpointName="contended")
    delete.get_waiter("endpoint_deleted").wait(EndpointName="contended", WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    clients = [stack.client("sagemaker") for _ in range(8)]

    def create(client: object) -> str:
        try:
            client.create_endpoint(EndpointName="contended", EndpointConfigName=config)  # type: ignore[attr-defined]
        except ClientError as error:
            return str(error.response["Error"]["Message"])[:39]
        return "won"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(create, clients))
    assert sorted(results) == ["Cannot create already existing endpoint"] * 7 + ["won"]
    in_service(stack, "contended")
    assert stack.live_instances() == [PLENTY]
    delete_endpoint(stack, "contended")


def test_eight_endpoints_that_contend_for_three_slots_never_exceed_them(stack: Stack) -> None:
    names = [f"slot-{number}" for number in range(8)]
    most = 0
    for name in names:
        create_endpoint(stack, name, types=(SECOND,))
    sagemaker = stack.client("sagemaker")

    def served() -> int:
        nonlocal most
        most = max(most, stack.live_instances().count(SECOND))
        states = [sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] for name in names]
        return states.count("InService") == 3

    assert stack.wait(served)
    most = max(most, stack.live_instances().count(SECOND))  # the last may have come between a look here and one there
    winners = [n for n in names if sagemaker.describe_endpoint(EndpointName=n)["EndpointStatus"] == "InService"]
    for name in winners:
        delete_endpoint(stack, name)
    losers = [name for name in names if name not in winners]
    for name in losers:  # deleted while still being created
        delete_endpoint(stack, name)
    assert most == 3
    assert stack.wait(lambda: SECOND not in stack.live_instances())


def test_async_inline_bodies_end_at_exactly_128000_bytes(stack: Stack, bucket: str) -> None:
    create_endpoint(stack, "inline", bucket=bucket)
    in_service(stack, "inline")
    runtime = stack.client("sagemaker-runtime")
    body = b"x" * 128_000
    accepted = runtime.invoke_endpoint_async(EndpointName="inline", Body=body, ContentType="text/plain", InferenceId="id-1")
    assert accepted["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert accepted["InferenceId"] == "id-1"
    assert accepted["OutputLocation"].startswith(f"s3://{bucket}/out/")
    assert accepted["FailureLocation"].startswith(f"s3://{bucket}/failed/")
    assert stack.wait(lambda: objects_of(stack, accepted)[0]) == body
    for bad in ({"Body": body + b"x"}, {"Body": b"x", "InputLocation": "s3://b/k"}, {}):
        with pytest.raises(runtime.exceptions.ValidationError):
            runtime.invoke_endpoint_async(EndpointName="inline", **bad)
    with pytest.raises(runtime.exceptions.ValidationError, match="does not support this inference type"):
        runtime.invoke_endpoint(EndpointName="inline", Body=b"x")
    delete_endpoint(stack, "inline")


def test_a_model_that_refuses_leaves_a_failure_object_and_no_output(stack: Stack, bucket: str) -> None:
    create_endpoint(stack, "refuses", bucket=bucket)
    in_service(stack, "refuses")
    runtime = stack.client("sagemaker-runtime")
    accepted = runtime.invoke_endpoint_async(EndpointName="refuses", Body=b"x", CustomAttributes="mode=http:400")
    failure = stack.wait(lambda: objects_of(stack, accepted)[1])
    assert failure == b'Received client error (400) from model with message "the model says no".'
    assert objects_of(stack, accepted)[0] is None
    delete_endpoint(stack, "refuses")


def test_zero_instances_keep_requests_waiting_until_there_are_some(stack: Stack, bucket: str) -> None:
    create_endpoint(stack, "sleeper", bucket=bucket)
    in_service(stack, "sleeper")
    sagemaker = stack.client("sagemaker")

    def scale(count: int) -> None:
        changes = [{"VariantName": "main", "DesiredInstanceCount": count}]
        sagemaker.update_endpoint_weights_and_capacities(EndpointName="sleeper", DesiredWeightsAndCapacities=changes)
        in_service(stack, "sleeper")

    scale(0)
    accepted = stack.client("sagemaker-runtime").invoke_endpoint_async(EndpointName="sleeper", Body=b"later")
    assert objects_of(stack, accepted) == (None, None)
    scale(1)
    assert stack.wait(lambda: objects_of(stack, accepted)[0]) == b"later"
    delete_endpoint(stack, "sleeper")
