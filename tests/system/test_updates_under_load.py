"""No call is lost while a fleet is updated, shrinks or comes home: 50 calls a second, real processes, failed calls 0."""

from typing import Any

import pytest

from tests.system.load import steady
from tests.system.stack import FIRST, PLENTY, SECOND, Stack, counts_of, create_endpoint, delete_endpoint, in_service

ROLLING = {"RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1}, "WaitIntervalInSeconds": 1}}
CANARY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 2,
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 34},
        }
    }
}


def configure(stack: Stack, name: str, model: str, count: int = 3) -> None:
    """A configuration of a model over plenty of instances."""
    pools = [{"InstanceType": PLENTY, "Priority": 1}]
    variant = {"VariantName": "main", "ModelName": model, "InitialInstanceCount": count, "InstancePools": pools}
    stack.client("sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])


@pytest.mark.parametrize(("kind", "policy"), [("rolling", ROLLING), ("canary", CANARY), ("at-once", {})])
def test_an_update_loses_no_call(stack: Stack, kind: str, policy: dict[str, Any]) -> None:
    name = f"loaded-{kind}"
    create_endpoint(stack, name, count=3)
    in_service(stack, name)
    configure(stack, f"{name}-next", name)
    extra = {"DeploymentConfig": policy} if policy else {}
    with steady(stack, name) as load:
        stack.client("sagemaker").update_endpoint(EndpointName=name, EndpointConfigName=f"{name}-next", **extra)
        described = in_service(stack, name)
        before = sum(load.answers.values())
        stack.wait(lambda: sum(load.answers.values()) > max(before + 50, 100))
    assert described["EndpointConfigName"] == f"{name}-next"
    assert load.failed == {}
    assert load.answers["200"] > 100
    stack.wait(lambda: stack.live_instances().count(PLENTY) == 3)
    delete_endpoint(stack, name)
    stack.client("sagemaker").delete_endpoint_config(EndpointConfigName=f"{name}-next")


def test_a_scale_in_loses_no_call(stack: Stack) -> None:
    create_endpoint(stack, "shrinking", count=3)
    in_service(stack, "shrinking")
    change = {"VariantName": "main", "DesiredInstanceCount": 1}
    with steady(stack, "shrinking") as load:
        stack.client("sagemaker").update_endpoint_weights_and_capacities(
            EndpointName="shrinking", DesiredWeightsAndCapacities=[change]
        )
        in_service(stack, "shrinking")
        stack.wait(lambda: stack.live_instances().count(PLENTY) == 1)
        before = sum(load.answers.values())
        stack.wait(lambda: sum(load.answers.values()) > before + 50)
    assert load.failed == {}
    delete_endpoint(stack, "shrinking")


def test_coming_home_loses_no_call(stack: Stack) -> None:
    sagemaker = stack.client("sagemaker")
    create_endpoint(stack, "wanderer", types=(FIRST, SECOND))
    assert counts_of(in_service(stack, "wanderer")) == {FIRST: 0, SECOND: 1}
    arn = sagemaker.describe_endpoint(EndpointName="wanderer")["EndpointArn"]
    try:
        with steady(stack, "wanderer") as load:
            sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "headrace:coming-home", "Value": "1s"}])
            stack.set_capacity(FIRST, 1)
            stack.wait(lambda: counts_of(sagemaker.describe_endpoint(EndpointName="wanderer"))[FIRST] == 1, 60)
            stack.wait(lambda: stack.live_instances() == [FIRST], 60)
            before = sum(load.answers.values())
            stack.wait(lambda: sum(load.answers.values()) > before + 50)
        assert load.failed == {}
    finally:
        stack.set_capacity(FIRST, 0)
        delete_endpoint(stack, "wanderer")
