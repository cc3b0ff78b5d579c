"""Unmodified clients against the API over HTTP: boto3 in each of the service's protocols, and the AWS CLI."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.loaders import Loader
from django.core.management import call_command

from controlplane.auth.models import AccessKey, Account
from controlplane.auth.secrets import encrypt
from controlplane.core import clock

ALARM = {
    "AlarmName": "errors",
    "AlarmDescription": "t\u00e9st & <more>",
    "Namespace": "AWS/SageMaker",
    "MetricName": "Invocation5XXErrors",
    "Dimensions": [{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "v"}],
    "Statistic": "Average",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 0.1,
    "ComparisonOperator": "GreaterThanThreshold",
    "ActionsEnabled": False,
}

Connect = Callable[..., Any]


@pytest.fixture
def connect(live_server: Any) -> Connect:
    """Makes clients of the API; `protocol` is one of the service model's, None leaves the choice to boto3."""
    call_command("bootstrap")

    def make(protocol: str | None = None, **key: str) -> Any:
        session = botocore.session.get_session()
        # A loader of its own: once another test has imported moto, a session gets one of that.
        loader = Loader()
        session.register_component("data_loader", loader if protocol is None else _speaking(protocol, loader))
        client = boto3.Session(botocore_session=session).client("cloudwatch", endpoint_url=live_server.url, **key)
        assert protocol in (None, client.meta.service_model.resolved_protocol)
        return client

    return make


def _speaking(protocol: str, loader: Any) -> Any:
    """A loader whose model of CloudWatch knows one protocol only, as those of older or other SDKs do."""
    load = loader.load_service_model

    def load_service_model(service_name: str, type_name: str, api_version: str | None = None) -> Any:
        model = load(service_name, type_name, api_version)
        if (service_name, type_name) == ("cloudwatch", "service-2"):
            known = {**model["metadata"], "protocol": protocol, "protocols": [protocol]}
            if protocol == "query":
                known.pop("awsQueryCompatible")
            return {**model, "metadata": known}
        return model

    loader.load_service_model = load_service_model
    return loader


@pytest.mark.parametrize("protocol", [None, "json", "query", "smithy-rpc-v2-cbor"])
def test_the_life_of_an_alarm_in_each_protocol(connect: Connect, protocol: str | None) -> None:
    client = connect(protocol)
    client.put_metric_alarm(**ALARM)
    (shown,) = client.describe_alarms(AlarmNames=["errors"])["MetricAlarms"]
    assert {name: shown[name] for name in ALARM} == ALARM
    assert shown["StateValue"] == "INSUFFICIENT_DATA"
    assert abs(shown["StateUpdatedTimestamp"] - clock.now()) < timedelta(minutes=1)
    client.set_alarm_state(AlarmName="errors", StateValue="ALARM", StateReason="rehearsal")
    assert [each["AlarmName"] for each in client.describe_alarms(StateValue="ALARM")["MetricAlarms"]] == ["errors"]
    answer = client.delete_alarms(AlarmNames=["errors"])
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert answer["ResponseMetadata"]["HTTPHeaders"]["x-amzn-requestid"]
    assert client.describe_alarms()["MetricAlarms"] == []


@pytest.mark.parametrize("protocol", [None, "json", "query", "smithy-rpc-v2-cbor"])
def test_errors_are_those_of_the_model_in_each_protocol(connect: Connect, protocol: str | None) -> None:
    client = connect(protocol)
    with pytest.raises(client.exceptions.ResourceNotFound, match="absent") as missing:
        client.delete_alarms(AlarmNames=["absent"])
    assert missing.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    with pytest.raises(client.exceptions.InvalidParameterValueException, match="AWS/"):
        client.put_metric_data(Namespace="AWS/SageMaker", MetricData=[{"MetricName": "m", "Value": 1.0}])
    with pytest.raises(ClientError, match="Member Metrics is not supported by Headrace") as refused:
        client.put_metric_alarm(**ALARM, Metrics=[{"Id": "a", "Expression": "b"}])
    assert refused.value.response["Error"]["Code"] == "ValidationError"
    with pytest.raises(ClientError, match=r"alarmName.*less than or equal to 255"):
        client.put_metric_alarm(**{**ALARM, "AlarmName": "x" * 256})
    with pytest.raises(ClientError, match="Headrace supports"):
        client.put_metric_alarm(**{**ALARM, "ComparisonOperator": "GreaterThanUpperThreshold"})
    with pytest.raises(ClientError, match="'PutDashboard' is not supported"):
        client.put_dashboard(DashboardName="d", DashboardBody="{}")


@pytest.mark.parametrize("protocol", [None, "json", "query", "smithy-rpc-v2-cbor"])
def test_data_go_in_and_come_out_in_each_protocol(connect: Connect, protocol: str | None) -> None:
    client = connect(protocol)
    moment = clock.now().replace(second=7, microsecond=0) - timedelta(minutes=2)
    dimensions = [{"Name": "a.b", "Value": "c&d"}]
    datum = {"MetricName": "m", "Timestamp": moment, "Values": [1.5, 3.0], "Counts": [1.0, 2.0], "Unit": "Seconds"}
    client.put_metric_data(Namespace="mine", MetricData=[{**datum, "Dimensions": dimensions}])
    (listed,) = client.list_metrics(Namespace="mine", Dimensions=[{"Name": "a.b"}])["Metrics"]
    assert listed == {"Namespace": "mine", "MetricName": "m", "Dimensions": dimensions}
    stretch = {"StartTime": moment - timedelta(minutes=1), "EndTime": moment + timedelta(minutes=1)}
    asked = {"Statistics": ["Sum", "SampleCount"], "ExtendedStatistics": ["p99"]}
    (point,) = client.get_metric_statistics(**listed, **stretch, **asked, Period=60)["Datapoints"]
    assert (point["Sum"], point["SampleCount"], point["Unit"]) == (7.5, 3, "Seconds")
    assert point["ExtendedStatistics"]["p99"] == pytest.approx(3, rel=0.02)
    assert point["Timestamp"] == moment.replace(second=0)
    query = {"Id": "q", "MetricStat": {"Metric": listed, "Period": 60, "Stat": "Average"}}
    (result,) = client.get_metric_data(MetricDataQueries=[query], **stretch)["MetricDataResults"]
    assert (result["Values"], result["Timestamps"]) == ([2.5], [moment.replace(second=0)])


def test_a_large_request_comes_packed_and_is_unpacked(connect: Connect) -> None:
    client = connect()
    packed: list[bytes | None] = []
    client.meta.events.register(
        "before-send.*", lambda request, **_: packed.append(request.headers.get("Content-Encoding"))
    )
    data = [{"MetricName": f"metric-number-{number}", "Value": float(number)} for number in range(500)]
    client.put_metric_data(Namespace="large", MetricData=data)
    assert packed == [b"gzip"]
    assert len(client.list_metrics(Namespace="large")["Metrics"]) == 500


def test_paginators_show_every_alarm_once(connect: Connect) -> None:
    client = connect()
    for number in range(5):
        client.put_metric_alarm(**{**ALARM, "AlarmName": f"a{number}"})
    pages = client.get_paginator("describe_alarms").paginate(PaginationConfig={"PageSize": 2})
    assert [alarm["AlarmName"] for page in pages for alarm in page["MetricAlarms"]] == [f"a{each}" for each in range(5)]


def test_a_waiter_waits_for_an_alarm(connect: Connect) -> None:
    client = connect()
    client.put_metric_alarm(**ALARM)
    client.get_waiter("alarm_exists").wait(AlarmNames=["errors"], WaiterConfig={"Delay": 1, "MaxAttempts": 2})


@pytest.mark.parametrize("protocol", [None, "query", "smithy-rpc-v2-cbor"])
def test_a_wrong_secret_opens_nothing(connect: Connect, protocol: str | None) -> None:
    client = connect(protocol, aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"], aws_secret_access_key="wrong")
    with pytest.raises(ClientError) as refused:
        client.describe_alarms()
    assert refused.value.response["Error"]["Code"] == "InvalidSignatureException"


def test_a_key_of_another_account_sees_nothing_of_this_one(connect: Connect) -> None:
    connect().put_metric_alarm(**ALARM)
    account = Account.objects.create(account_id="999999999999", created_at=clock.now())
    secret = encrypt("other-secret", os.environ["HEADRACE_SECRET_KEY"])
    AccessKey.objects.create(access_key_id="AKIAOTHER", account=account, secret_encrypted=secret, created_at=clock.now())
    other = connect(aws_access_key_id="AKIAOTHER", aws_secret_access_key="other-secret")
    assert other.describe_alarms()["MetricAlarms"] == []
    other.put_metric_alarm(**ALARM)
    other.set_alarm_state(AlarmName="errors", StateValue="ALARM", StateReason="theirs")
    (mine,) = connect().describe_alarms()["MetricAlarms"]
    assert (mine["StateValue"], mine["AlarmArn"].split(":")[4]) == ("INSUFFICIENT_DATA", "123456789012")


def test_the_aws_cli(connect: Connect, live_server: Any, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name.startswith("AWS_") or name == "PATH"}
    environment = {**kept, "HOME": str(tmp_path), "AWS_PAGER": "", "AWS_ENDPOINT_URL": live_server.url}

    def aws(*arguments: str) -> Any:
        command = [str(Path(sys.executable).with_name("aws")), "cloudwatch", *arguments, "--output", "json"]
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        return json.loads(done.stdout or b"null")

    assert connect is not None
    threshold = ("--threshold", "0.1", "--comparison-operator", "GreaterThanThreshold", "--statistic", "Average")
    metric = ("--namespace", "mine", "--metric-name", "m", "--dimensions", "Name=a,Value=b")
    aws("put-metric-alarm", "--alarm-name", "cli", *metric, *threshold, "--period", "60", "--evaluation-periods", "1")
    aws("set-alarm-state", "--alarm-name", "cli", "--state-value", "OK", "--state-reason", "by hand")
    (alarm,) = aws("describe-alarms", "--alarm-name-prefix", "cl")["MetricAlarms"]
    assert (alarm["StateValue"], alarm["StateReason"], alarm["Threshold"]) == ("OK", "by hand", 0.1)
    aws("put-metric-data", "--namespace", "mine", "--metric-name", "m", "--value", "2.5", "--dimensions", "a=b")
    assert len(aws("list-metrics", "--namespace", "mine")["Metrics"]) == 1
    now = clock.now()
    stretch = (
        "--start-time",
        (now - timedelta(minutes=5)).isoformat(),
        "--end-time",
        (now + timedelta(minutes=1)).isoformat(),
    )
    found = aws("get-metric-statistics", *metric, *stretch, "--period", "60", "--statistics", "Sum")
    assert [point["Sum"] for point in found["Datapoints"]] == [2.5]
    aws("delete-alarms", "--alarm-names", "cli")
    assert aws("describe-alarms")["MetricAlarms"] == []
