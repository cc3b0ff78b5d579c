"""The API's operations on alarms; those on metrics are in `queries`."""

from collections.abc import Mapping
from typing import Any

from controlplane.core.errors import ValidationError
from controlplane.core.ids import PARTITION
from controlplane.metrics import paging, services
from controlplane.metrics.models import MetricAlarm
from controlplane.wire.registry import Context, operation
from controlplane.wire.services import CLOUDWATCH

Params = Mapping[str, Any]
Answer = dict[str, Any]

DEFAULT_PAGE = 50
_ONLY_METRIC_ALARMS = ("ChildrenOfAlarmName", "ParentsOfAlarmName", "ActionPrefix")


@operation("PutMetricAlarm", CLOUDWATCH)
def put_metric_alarm(context: Context, params: Params) -> Answer:
    services.put_alarm(context.account_id, params, now=context.now)
    return {}


@operation("DeleteAlarms", CLOUDWATCH)
def delete_alarms(context: Context, params: Params) -> Answer:
    services.delete_alarms(context.account_id, params["AlarmNames"])
    return {}


@operation("SetAlarmState", CLOUDWATCH)
def set_alarm_state(context: Context, params: Params) -> Answer:
    services.set_alarm_state(context.account_id, params, now=context.now)
    return {}


@operation("DescribeAlarms", CLOUDWATCH)
def describe_alarms(context: Context, params: Params) -> Answer:
    for name in _ONLY_METRIC_ALARMS:
        if name in params:
            raise ValidationError(f"Member {name} is not supported by Headrace: it has metric alarms that run no actions")
    if "MetricAlarm" not in params.get("AlarmTypes", ["MetricAlarm"]):
        return {"MetricAlarms": [], "CompositeAlarms": []}
    rows = MetricAlarm.objects.filter(account_id=context.account_id, **_filters(params))
    page = paging.page(rows, params, column="name", limit=params.get("MaxRecords", DEFAULT_PAGE))
    alarms = [_picture(row, context) for row in page.rows]
    return {"MetricAlarms": alarms, "CompositeAlarms": [], "NextToken": page.next_token}


def _filters(params: Params) -> dict[str, Any]:
    if "AlarmNames" in params and "AlarmNamePrefix" in params:
        raise ValidationError("AlarmNames and AlarmNamePrefix exclude each other")
    lookups = {"AlarmNames": "name__in", "AlarmNamePrefix": "name__startswith", "StateValue": "state"}
    return {lookup: params[name] for name, lookup in lookups.items() if name in params}


def _picture(row: MetricAlarm, context: Context) -> Answer:
    """The alarm as DescribeAlarms shows it."""
    lists = {"OKActions": [], "AlarmActions": [], "InsufficientDataActions": [], "Dimensions": []}
    return {
        **lists,
        "ActionsEnabled": True,
        **row.request,
        "AlarmArn": f"arn:{PARTITION}:cloudwatch:{context.region}:{row.account_id}:alarm:{row.name}",
        "AlarmConfigurationUpdatedTimestamp": row.configured_at,
        "StateValue": row.state,
        "StateReason": row.reason,
        "StateReasonData": row.reason_data or None,
        "StateUpdatedTimestamp": row.state_updated_at,
        "StateTransitionedTimestamp": row.state_since,
    }
