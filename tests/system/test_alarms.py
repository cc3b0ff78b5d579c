"""An alarm on the calls of an endpoint, through the front door: it rings when the model fails and ends when it does not."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from controlplane.core import clock
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service

DIMENSIONS = [{"Name": "EndpointName", "Value": "rings"}, {"Name": "VariantName", "Value": "main"}]


def put_alarm(stack: Stack, metric: str, **statistic: Any) -> None:
    """An alarm named like its metric, over ten seconds."""
    stack.client("cloudwatch").put_metric_alarm(
        AlarmName=metric,
        Namespace="AWS/SageMaker",
        MetricName=metric,
        Dimensions=DIMENSIONS,
        Period=10,
        EvaluationPeriods=1,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="ignore",
        **statistic,
    )


def state(stack: Stack, metric: str) -> str:
    """What the alarm says."""
    (alarm,) = stack.client("cloudwatch").describe_alarms(AlarmNames=[metric])["MetricAlarms"]
    return str(alarm["StateValue"])


def invoke(stack: Stack, mode: str) -> None:
    """One call, whose model may fail."""
    runtime = stack.client("sagemaker-runtime")
    try:
        runtime.invoke_endpoint(EndpointName="rings", Body=b"x", CustomAttributes=f"mode={mode}")["Body"].read()
    except ClientError as error:
        if error.response["Error"]["Code"] != "ModelError":
            raise


def becomes(stack: Stack, wanted: str, mode: str) -> bool:
    """Call once more, and say whether the alarm on 5XX errors says what is wanted."""
    invoke(stack, mode)
    return state(stack, "Invocation5XXErrors") == wanted


def test_an_alarm_rings_while_the_model_fails_and_ends_when_it_does_not(stack: Stack, tmp_path: Path) -> None:
    create_endpoint(stack, "rings")
    in_service(stack, "rings")
    put_alarm(stack, "Invocation5XXErrors", Statistic="Average", Threshold=0.5)
    put_alarm(stack, "ModelLatency", ExtendedStatistic="p50", Threshold=60e6)
    stack.wait(lambda: becomes(stack, "OK", "echo") and state(stack, "ModelLatency") == "OK")
    stack.wait(lambda: becomes(stack, "ALARM", "http:500"))
    assert state(stack, "ModelLatency") == "OK"
    with stack.database() as connection:
        told = connection.execute("SELECT sentence FROM observability_event WHERE reason = 'AlarmStateChanged'").fetchall()
    assert any("Invocation5XXErrors went from OK to ALARM: Threshold Crossed" in sentence for (sentence,) in told)
    environment = {**stack.credentials, "PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_PAGER": ""}
    command = [str(Path(sys.executable).with_name("aws")), "cloudwatch", "describe-alarms", "--state-value", "ALARM"]
    shown = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert b"Invocation5XXErrors" in shown
    stack.wait(lambda: becomes(stack, "OK", "echo"))
    found = stack.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName="Invocations",
        Dimensions=DIMENSIONS,
        StartTime=clock.now() - timedelta(minutes=10),
        EndTime=clock.now() + timedelta(minutes=1),
        Period=600,
        Statistics=["Sum", "Average"],
    )
    assert all(point["Average"] == 1 for point in found["Datapoints"])
    assert sum(point["Sum"] for point in found["Datapoints"]) >= 3
    stack.client("cloudwatch").delete_alarms(AlarmNames=["Invocation5XXErrors", "ModelLatency"])
    delete_endpoint(stack, "rings")


def test_failed_attempts_of_asynchronous_invocations_are_counted_by_variant(stack: Stack, bucket: str) -> None:
    create_endpoint(stack, "counted", bucket=bucket)
    in_service(stack, "counted")
    for mode in ("echo", "http:400"):
        stack.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName="counted", Body=b"x", CustomAttributes=f"mode={mode}"
        )
    dimensions = [{"Name": "EndpointName", "Value": "counted"}]
    variant = [*dimensions, {"Name": "VariantName", "Value": "main"}]
    assert stack.wait(lambda: sums(stack, "Invocation4XXErrors", variant)) == [(2, 1)]
    assert stack.wait(lambda: sums(stack, "ApproximateBacklogSize", dimensions))
    delete_endpoint(stack, "counted")


def sums(stack: Stack, metric: str, dimensions: list[dict[str, str]]) -> list[tuple[float, float]]:
    """(count, sum) of the metric in the last minutes, once it has counted two calls."""
    found = stack.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/SageMaker",
        MetricName=metric,
        Dimensions=dimensions,
        StartTime=clock.now() - timedelta(minutes=10),
        EndTime=clock.now() + timedelta(minutes=1),
        Period=3600,
        Statistics=["SampleCount", "Sum"],
    )
    points = [(point["SampleCount"], point["Sum"]) for point in found["Datapoints"]]
    return [point for point in points if point[0] >= 2]
