"""UpdateEndpoint and pools as clients see them, through the front door: which model answers, and what an alarm undoes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.system.raw import invoke
from tests.system.stack import FIRST, PLENTY, SECOND, Stack, create_endpoint, delete_endpoint, in_service

# It waits far longer than an alarm takes to ring: what it tests is always undone in the midst of it.
CANARY = {
    "TrafficRoutingConfiguration": {
        "Type": "CANARY",
        "WaitIntervalInSeconds": 600,
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 50},
    }
}


def add_model(stack: Stack, name: str) -> None:
    """A model that says its name with every answer."""
    container = {"Image": stack.image, "Environment": {"CHAOS_NAME": name}}
    stack.client("sagemaker").create_model(ModelName=name, PrimaryContainer=container)


def configure(stack: Stack, name: str, model: str, *pools: dict[str, Any]) -> None:
    """A configuration of one instance."""
    variant = {"VariantName": "main", "ModelName": model, "InitialInstanceCount": 1, "InstancePools": list(pools)}
    stack.client("sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])


def answering(stack: Stack, endpoint: str) -> str:
    """The name of the model that answers."""
    answer = invoke(stack, endpoint, b"x", "name")
    assert answer.status == 200
    return answer.body.decode()


def test_each_pool_runs_the_model_that_overrides_the_variants(stack: Stack) -> None:
    for name in ("override", "small"):
        add_model(stack, name)
    preferred = {"InstanceType": FIRST, "Priority": 1}
    fallback = {"InstanceType": SECOND, "Priority": 2, "ModelNameOverride": "small"}
    configure(stack, "override", "override", preferred, fallback)
    stack.client("sagemaker").create_endpoint(EndpointName="override", EndpointConfigName="override")
    in_service(stack, "override")
    assert answering(stack, "override") == "small"
    delete_endpoint(stack, "override")


def test_the_command_line_updates_an_endpoint_and_the_new_model_answers(stack: Stack, tmp_path: Path) -> None:
    create_endpoint(stack, "versions", environment={"CHAOS_NAME": "first"})
    in_service(stack, "versions")
    assert answering(stack, "versions") == "first"
    add_model(stack, "second")
    configure(stack, "versions-next", "second", {"InstanceType": PLENTY, "Priority": 1})
    environment = {**stack.credentials, "PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_PAGER": ""}
    aws = str(Path(sys.executable).with_name("aws"))
    command = [aws, "sagemaker", "update-endpoint", "--endpoint-name", "versions"]
    subprocess.run([*command, "--endpoint-config-name", "versions-next"], env=environment, capture_output=True, check=True)
    described = in_service(stack, "versions")
    assert described["EndpointConfigName"] == "versions-next"
    assert "FailureReason" not in described
    assert answering(stack, "versions") == "second"
    delete_endpoint(stack, "versions")


def test_errors_of_the_new_revision_ring_its_alarm_and_the_old_one_answers_alone_again(stack: Stack) -> None:
    sagemaker, cloudwatch = stack.client("sagemaker"), stack.client("cloudwatch")
    create_endpoint(stack, "guarded", environment={"CHAOS_NAME": "old"})
    in_service(stack, "guarded")
    add_model(stack, "new")
    configure(stack, "guarded-next", "new", {"InstanceType": PLENTY, "Priority": 1})
    dimensions = {"EndpointName": "guarded", "VariantName": "main", "EndpointConfigName": "guarded-next"}
    cloudwatch.put_metric_alarm(
        AlarmName="new-errors",
        Namespace="AWS/SageMaker",
        MetricName="Invocation5XXErrors",
        Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        Statistic="Average",
        Period=10,
        EvaluationPeriods=1,
        Threshold=0.5,
        ComparisonOperator="GreaterThanThreshold",
    )
    sagemaker.update_endpoint(
        EndpointName="guarded",
        EndpointConfigName="guarded-next",
        DeploymentConfig={
            "BlueGreenUpdatePolicy": CANARY,
            "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "new-errors"}]},
        },
    )
    stack.wait(lambda: "new" in {answering(stack, "guarded") for _ in range(4)}, 60)
    assert _variant_status(stack) in ("ActivatingTraffic", "Baking")
    stack.wait(lambda: _fail_until_it_is_undone(stack), 60)
    described = sagemaker.describe_endpoint(EndpointName="guarded")
    assert described["EndpointConfigName"] == "guarded"
    assert "new-errors" in described["FailureReason"]
    assert {answering(stack, "guarded") for _ in range(8)} == {"old"}
    cloudwatch.delete_alarms(AlarmNames=["new-errors"])
    delete_endpoint(stack, "guarded")


def _variant_status(stack: Stack) -> str:
    pending = stack.client("sagemaker").describe_endpoint(EndpointName="guarded")["PendingDeploymentSummary"]
    return str(pending["ProductionVariants"][0]["VariantStatus"][0]["Status"])


def _fail_until_it_is_undone(stack: Stack) -> bool:
    """Let the models fail once more; whether the endpoint is in service by now."""
    assert invoke(stack, "guarded", b"x", "http:500").status == 424
    return bool(stack.client("sagemaker").describe_endpoint(EndpointName="guarded")["EndpointStatus"] == "InService")
