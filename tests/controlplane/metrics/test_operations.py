"""Alarms and metrics as their callers see them."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from controlplane.core.errors import (
    AlarmNotFound,
    InvalidNextToken,
    InvalidParameterCombination,
    InvalidParameterValue,
    LimitExceeded,
    MissingParameter,
    ValidationError,
)
from controlplane.core.ids import new_uuid
from controlplane.metrics import store
from controlplane.metrics.models import MetricAlarm, MetricBucket
from controlplane.metrics.selectors import alarm_states
from controlplane.metrics.series import MetricSetKey
from controlplane.metrics.services import MOST_ALARMS, put_data
from controlplane.metrics.statistics import Aggregate
from controlplane.observability.models import Event
from tests.controlplane.metrics.conftest import Call
from tests.engines_plugin import ACCOUNT
from tests.fakes.clock import START, FakeClock

OTHER = "999999999999"
DIMENSIONS = [{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "v"}]


def alarm(name: str = "errors", **changes: Any) -> dict[str, Any]:
    """A legal PutMetricAlarm request with changes; None removes a member."""
    request = {
        "AlarmName": name,
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocation5XXErrors",
        "Dimensions": DIMENSIONS,
        "Statistic": "Average",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 0.1,
        "ComparisonOperator": "GreaterThanThreshold",
        **changes,
    }
    return {key: value for key, value in request.items() if value is not None}


def test_a_new_alarm_is_unchecked_and_shows_what_was_asked_for(call: Call) -> None:
    actions = ["arn:aws:sns:us-east-1:1:topic"]
    call("PutMetricAlarm", **alarm(AlarmActions=actions, TreatMissingData="notBreaching"))
    (shown,) = call("DescribeAlarms")["MetricAlarms"]
    assert shown["StateValue"] == "INSUFFICIENT_DATA"
    assert shown["StateReason"] == "Unchecked: Initial alarm creation"
    assert shown["AlarmArn"] == f"arn:aws:cloudwatch:us-east-1:{ACCOUNT}:alarm:errors"
    assert shown["AlarmActions"] == actions
    assert (shown["ActionsEnabled"], shown["OKActions"], shown["TreatMissingData"]) == (True, [], "notBreaching")
    assert (shown["Dimensions"], shown["Threshold"]) == (DIMENSIONS, 0.1)
    assert shown["StateUpdatedTimestamp"] == shown["AlarmConfigurationUpdatedTimestamp"] == START


def test_putting_an_alarm_again_replaces_all_but_its_state(call: Call, fake_clock: FakeClock) -> None:
    call("PutMetricAlarm", **alarm(AlarmDescription="first", TreatMissingData="breaching"))
    call("SetAlarmState", AlarmName="errors", StateValue="ALARM", StateReason="test")
    fake_clock.step(60)
    call("PutMetricAlarm", **alarm(Threshold=0.5))
    (shown,) = call("DescribeAlarms")["MetricAlarms"]
    assert (shown["StateValue"], shown["StateReason"], shown["Threshold"]) == ("ALARM", "test", 0.5)
    assert "AlarmDescription" not in shown
    assert "TreatMissingData" not in shown
    assert shown["StateTransitionedTimestamp"] == START < shown["AlarmConfigurationUpdatedTimestamp"]


def test_setting_the_state_tells_of_it_once_for_each_change(call: Call, fake_clock: FakeClock) -> None:
    call("PutMetricAlarm", **alarm())
    for reason in ("one", "two"):
        call("SetAlarmState", AlarmName="errors", StateValue="ALARM", StateReason=reason, StateReasonData='{"a": 1}')
        fake_clock.step(5)
    state = alarm_states(ACCOUNT, ["errors", "absent"])["errors"]
    assert (state.state, state.reason, state.since) == ("ALARM", "two", START)
    (shown,) = call("DescribeAlarms")["MetricAlarms"]
    assert shown["StateReasonData"] == '{"a": 1}'
    assert shown["StateUpdatedTimestamp"] == START + timedelta(seconds=5)
    (event,) = Event.objects.filter(reason="AlarmStateChanged")
    assert event.sentence == "Alarm errors went from INSUFFICIENT_DATA to ALARM: one"


def test_states_are_those_of_the_account_and_missing_names_are_absent(call: Call) -> None:
    call("PutMetricAlarm", **alarm())
    assert alarm_states(ACCOUNT, ["errors", "absent"]).keys() == {"errors"}
    assert alarm_states(OTHER, ["errors"]) == {}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"MetricName": None}, "MetricName must be given"),
        ({"Threshold": None, "Period": None}, "Period, Threshold must be given"),
        ({"Statistic": None}, "exactly one of Statistic and ExtendedStatistic"),
        ({"ExtendedStatistic": "p90"}, "exactly one of Statistic and ExtendedStatistic"),
        ({"Statistic": None, "ExtendedStatistic": "tm90"}, "only percentiles are"),
        ({"Period": 45}, "Period must be 10, 30 or a multiple of 60"),
        ({"Period": 3600, "EvaluationPeriods": 25}, "at most 86400 seconds"),
        ({"DatapointsToAlarm": 2}, "DatapointsToAlarm must be at most EvaluationPeriods"),
        ({"TreatMissingData": "sometimes"}, "TreatMissingData must be one of"),
        ({"EvaluateLowSampleCountPercentile": "ignore"}, "'evaluate' only"),
        ({"Dimensions": [DIMENSIONS[0], DIMENSIONS[0]]}, "names that differ"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(call: Call, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        call("PutMetricAlarm", **alarm(**changes))
    assert call("DescribeAlarms")["MetricAlarms"] == []


def test_an_account_may_have_so_many_alarms(call: Call) -> None:
    call("PutMetricAlarm", **alarm())
    (row,) = MetricAlarm.objects.all()
    more = [copied(row, f"more-{number}") for number in range(MOST_ALARMS - 1)]
    MetricAlarm.objects.bulk_create(more)
    with pytest.raises(LimitExceeded, match=str(MOST_ALARMS)):
        call("PutMetricAlarm", **alarm("one-more"))
    call("PutMetricAlarm", **alarm(Threshold=0.9))
    call("PutMetricAlarm", account=OTHER, **alarm("one-more"))


def copied(row: MetricAlarm, name: str) -> MetricAlarm:
    """The alarm under another name, not stored yet."""
    values = {field.attname: getattr(row, field.attname) for field in MetricAlarm._meta.concrete_fields}
    return MetricAlarm(**{**values, "id": new_uuid(), "name": name})


def test_alarms_are_deleted_all_or_none(call: Call) -> None:
    for name in ("a", "b"):
        call("PutMetricAlarm", **alarm(name))
    with pytest.raises(AlarmNotFound, match="absent"):
        call("DeleteAlarms", AlarmNames=["a", "absent"])
    with pytest.raises(AlarmNotFound):
        call("DeleteAlarms", account=OTHER, AlarmNames=["a"])
    assert len(call("DescribeAlarms")["MetricAlarms"]) == 2
    call("DeleteAlarms", AlarmNames=["a", "b", "a"])
    assert call("DescribeAlarms")["MetricAlarms"] == []
    with pytest.raises(AlarmNotFound):
        call("SetAlarmState", AlarmName="a", StateValue="OK", StateReason="")


def test_alarms_are_listed_in_pages_by_name_prefix_and_state(call: Call) -> None:
    for number in range(7):
        call("PutMetricAlarm", **alarm(f"page-{number}"))
    call("PutMetricAlarm", **alarm("other"))
    call("SetAlarmState", AlarmName="page-3", StateValue="OK", StateReason="")
    names, token = [], None
    for size in (3, 3, 1):
        more = {"NextToken": token} if token else {}
        page = call("DescribeAlarms", AlarmNamePrefix="page-", MaxRecords=3, **more)
        assert len(page["MetricAlarms"]) == size
        names += [each["AlarmName"] for each in page["MetricAlarms"]]
        token = page["NextToken"]
    assert (names, token) == ([f"page-{number}" for number in range(7)], None)
    assert [each["AlarmName"] for each in call("DescribeAlarms", StateValue="OK")["MetricAlarms"]] == ["page-3"]
    assert call("DescribeAlarms", AlarmTypes=["CompositeAlarm"])["MetricAlarms"] == []
    first = call("DescribeAlarms", MaxRecords=1)
    with pytest.raises(InvalidNextToken):
        call("DescribeAlarms", AlarmNamePrefix="o", NextToken=first["NextToken"])


def statistics(call: Call, metric: str, *names: str, account: str = ACCOUNT, **changes: Any) -> list[dict[str, Any]]:
    """The data points of the last two minutes, by time."""
    request = {
        "Namespace": "mine",
        "MetricName": metric,
        "StartTime": START - timedelta(seconds=60),
        "EndTime": START + timedelta(seconds=60),
        "Period": 60,
        "Statistics": list(names),
        **changes,
    }
    points: list[dict[str, Any]] = call("GetMetricStatistics", account=account, **request)["Datapoints"]
    return sorted(points, key=lambda point: point["Timestamp"])


def test_data_of_all_forms_and_calls_add_up(call: Call, fake_clock: FakeClock) -> None:
    data = [
        {"MetricName": "m", "Value": 4.0},
        {"MetricName": "m", "Values": [1.0, 9.0], "Counts": [2.0, 1.0]},
        {"MetricName": "other", "Value": 77.0},
        {"MetricName": "m", "Value": 1000.0, "Dimensions": DIMENSIONS},
    ]
    call("PutMetricData", Namespace="mine", MetricData=data)
    fake_clock.step(15)
    given = {"SampleCount": 2.0, "Sum": 20.0, "Minimum": 5.0, "Maximum": 15.0}
    call("PutMetricData", Namespace="mine", MetricData=[{"MetricName": "m", "StatisticValues": given}])
    (point,) = statistics(call, "m", "SampleCount", "Sum", "Average", "Minimum", "Maximum")
    found = {name: point[name] for name in ("SampleCount", "Sum", "Average", "Minimum", "Maximum")}
    assert found == {"SampleCount": 6, "Sum": 35, "Average": pytest.approx(35 / 6), "Minimum": 1, "Maximum": 15}
    assert (point["Timestamp"], point["Unit"]) == (START, "None")
    fine = statistics(call, "m", "Sum", Period=10)
    assert [(each["Timestamp"], each["Sum"]) for each in fine] == [
        (START, 15),
        (START + timedelta(seconds=10), 20),
    ]


def test_percentiles_are_answered_where_they_can_be_told(call: Call) -> None:
    data = [{"MetricName": "m", "Values": [float(number) for number in range(1, 101)]}]
    call("PutMetricData", Namespace="mine", MetricData=data)
    (point,) = statistics(call, "m", ExtendedStatistics=["p50", "p99"])
    assert point["ExtendedStatistics"] == {"p50": pytest.approx(50, rel=0.02), "p99": pytest.approx(99, rel=0.02)}


def test_units_are_kept_apart_when_asked_for(call: Call) -> None:
    data = [{"MetricName": "m", "Value": 1.0, "Unit": "Seconds"}, {"MetricName": "m", "Value": 2.0, "Unit": "Bytes"}]
    call("PutMetricData", Namespace="mine", MetricData=data)
    assert [(each["Sum"], each["Unit"]) for each in statistics(call, "m", "Sum", Unit="Bytes")] == [(2, "Bytes")]
    assert [(each["Sum"], each["Unit"]) for each in statistics(call, "m", "Sum")] == [(3, None)]


def test_no_account_sees_or_changes_anothers_metrics_and_alarms(call: Call) -> None:
    call("PutMetricData", Namespace="mine", MetricData=[{"MetricName": "m", "Value": 1.0}])
    call("PutMetricAlarm", **alarm())
    assert statistics(call, "m", "Sum", account=OTHER) == []
    assert call("ListMetrics", account=OTHER)["Metrics"] == []
    assert call("DescribeAlarms", account=OTHER)["MetricAlarms"] == []
    call("PutMetricData", account=OTHER, Namespace="mine", MetricData=[{"MetricName": "m", "Value": 5.0}])
    assert [point["Sum"] for point in statistics(call, "m", "Sum")] == [1]


def test_writing_one_call_twice_counts_once(call: Call) -> None:
    for _ in range(2):
        put_data(ACCOUNT, "mine", [{"MetricName": "m", "Value": 1.0}], source="request-1", now=START)
    assert [point["SampleCount"] for point in statistics(call, "m", "SampleCount")] == [1]


@pytest.mark.parametrize(
    ("datum", "error", "text"),
    [
        ({}, InvalidParameterCombination, "exactly one of"),
        ({"Value": 1.0, "Values": [1.0]}, InvalidParameterCombination, "exactly one of"),
        ({"Values": []}, InvalidParameterValue, "1 to 150"),
        ({"Values": [1.0], "Counts": [1.0, 2.0]}, InvalidParameterValue, "positive element for each"),
        ({"Values": [1.0], "Counts": [0.0]}, InvalidParameterValue, "positive element for each"),
        ({"Value": 2.0**361}, InvalidParameterValue, "too large"),
        ({"Value": 1.0, "Timestamp": START - timedelta(days=15)}, InvalidParameterValue, "two weeks"),
        ({"Value": 1.0, "Timestamp": START + timedelta(hours=3)}, InvalidParameterValue, "two weeks"),
        ({"Value": 1.0, "StorageResolution": 7}, InvalidParameterValue, "must be 1 or 60"),
        ({"Value": 1.0, "Dimensions": [DIMENSIONS[0]] * 2}, InvalidParameterValue, "names that differ"),
        (
            {"StatisticValues": {"SampleCount": 1.0, "Sum": 1.0, "Minimum": 2.0, "Maximum": 1.0}},
            InvalidParameterValue,
            "Minimum <= Maximum",
        ),
    ],
)
def test_wrong_data_are_refused_whole(call: Call, datum: dict[str, Any], error: type[Exception], text: str) -> None:
    data = [{"MetricName": "m", "Value": 1.0}, {"MetricName": "m", **datum}]
    with pytest.raises(error, match=text):
        call("PutMetricData", Namespace="mine", MetricData=data)
    assert not MetricBucket.objects.exists()


def test_headraces_own_namespaces_are_not_the_callers_to_write(call: Call) -> None:
    with pytest.raises(InvalidParameterValue, match="AWS/"):
        call("PutMetricData", Namespace="AWS/SageMaker", MetricData=[{"MetricName": "m", "Value": 1.0}])
    with pytest.raises(MissingParameter):
        call("PutMetricData", Namespace="mine")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"Period": 15}, InvalidParameterValue),
        ({"Period": 60 * 10**6}, InvalidParameterValue),
        ({"Statistics": []}, MissingParameter),
        ({"ExtendedStatistics": ["tm99"]}, InvalidParameterValue),
        ({"EndTime": START - timedelta(seconds=60)}, InvalidParameterCombination),
        ({"StartTime": START - timedelta(days=3)}, InvalidParameterCombination),
        ({"EndTime": START.replace(year=9999)}, InvalidParameterValue),
    ],
)
def test_wrong_questions_are_refused(call: Call, changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        statistics(call, "m", "Sum", **changes)


def test_several_metrics_are_answered_in_one_request(call: Call, fake_clock: FakeClock) -> None:
    for value in (1.0, 2.0):
        data = [{"MetricName": "m", "Value": value}, {"MetricName": "n", "Value": value * 10, "Dimensions": DIMENSIONS}]
        call("PutMetricData", Namespace="mine", MetricData=data)
        fake_clock.step(60)
    queries = [
        {"Id": "a", "MetricStat": {"Metric": metric("m"), "Period": 60, "Stat": "Sum"}},
        {"Id": "b", "MetricStat": {"Metric": metric("n", DIMENSIONS), "Period": 60, "Stat": "p50"}, "Label": "tens"},
        {"Id": "c", "MetricStat": {"Metric": metric("m"), "Period": 60, "Stat": "Sum"}, "ReturnData": False},
        {"Id": "d", "MetricStat": {"Metric": metric("absent"), "Period": 60, "Stat": "Sum"}},
    ]
    stretch = {"StartTime": START, "EndTime": START + timedelta(minutes=5)}
    first, second, none = call("GetMetricData", MetricDataQueries=queries, **stretch)["MetricDataResults"]
    later = START + timedelta(minutes=1)
    assert (first["Id"], first["Label"], first["StatusCode"]) == ("a", "m", "Complete")
    assert list(zip(first["Timestamps"], first["Values"], strict=True)) == [(later, 2), (START, 1)]
    assert (second["Label"], second["Values"]) == ("tens", pytest.approx([20, 10], rel=0.02))
    assert (none["Timestamps"], none["Values"]) == ([], [])
    ascending = call("GetMetricData", MetricDataQueries=queries, ScanBy="TimestampAscending", **stretch)
    assert ascending["MetricDataResults"][0]["Values"] == [1, 2]


def metric(name: str, dimensions: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """A metric of namespace `mine`."""
    return {"Namespace": "mine", "MetricName": name, "Dimensions": dimensions or []}


def test_metrics_are_listed_by_namespace_name_and_dimension(call: Call) -> None:
    call("PutMetricData", Namespace="mine", MetricData=[{"MetricName": "m", "Value": 1.0}])
    data = [{"MetricName": name, "Value": 1.0, "Dimensions": DIMENSIONS} for name in ("m", "n")]
    call("PutMetricData", Namespace="mine", MetricData=data)
    call("PutMetricData", Namespace="mine", MetricData=data[:1])
    call("PutMetricData", Namespace="yours", MetricData=[{"MetricName": "m", "Value": 1.0}])
    assert len(call("ListMetrics")["Metrics"]) == 4
    assert call("ListMetrics", Namespace="yours")["Metrics"] == [
        {"Namespace": "yours", "MetricName": "m", "Dimensions": []}
    ]
    by_name = call("ListMetrics", Namespace="mine", MetricName="n")["Metrics"]
    assert by_name == [{"Namespace": "mine", "MetricName": "n", "Dimensions": DIMENSIONS}]
    for filters in ([{"Name": "VariantName"}], [{"Name": "VariantName", "Value": "v"}]):
        assert len(call("ListMetrics", Dimensions=filters)["Metrics"]) == 2
    assert call("ListMetrics", Dimensions=[{"Name": "VariantName", "Value": "w"}])["Metrics"] == []


def test_the_order_of_dimensions_plays_no_part(call: Call) -> None:
    for dimensions in (DIMENSIONS, DIMENSIONS[::-1]):
        data = [{"MetricName": "m", "Value": 1.0, "Dimensions": dimensions}]
        call("PutMetricData", Namespace="mine", MetricData=data)
    assert [each["Sum"] for each in statistics(call, "m", "Sum", Dimensions=DIMENSIONS)] == [2]


def test_what_a_source_writes_again_replaces_what_it_wrote(call: Call) -> None:
    key = MetricSetKey(ACCOUNT, "mine", {})
    for source, count in (("one", 1), ("one", 5), ("two", 3)):
        aggregate = Aggregate.of([(1.0, count)])
        write([store.Bucket(key, int(START.timestamp()), source, {"m": {"None": aggregate}})])
    assert [each["SampleCount"] for each in statistics(call, "m", "SampleCount")] == [8]


def write(buckets: list[store.Bucket]) -> None:
    """Write buckets as a gateway does."""
    with connection.cursor() as cursor:
        cursor.execute(store.WRITE, [store.rows(buckets)])
