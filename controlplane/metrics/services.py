"""Writing alarms and data."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import F

from controlplane.core.errors import AlarmNotFound, LimitExceeded, ValidationError
from controlplane.core.ids import new_uuid
from controlplane.metrics import rules, store
from controlplane.metrics.evaluate import Verdict
from controlplane.metrics.models import AlarmStateValue, MetricAlarm
from controlplane.metrics.series import MetricSetKey, bucket_start
from controlplane.metrics.statistics import Aggregate, merged
from controlplane.observability.events import Subject, record

Params = Mapping[str, Any]

MOST_ALARMS = 5000
"""Of an account, as by default with the service this mirrors. Two requests at once may pass it together, by one."""

REASON_LIMIT = 1023
EVENT_NAME_LIMIT = 63
UNIT = "None"
"""The unit of data that name none."""


def put_alarm(account_id: str, params: Params, *, now: datetime) -> None:
    """Make or replace an alarm. A new one has not been looked at; one that is replaced keeps its state."""
    violations = rules.alarm_violations(params)
    if violations:
        raise ValidationError("; ".join(violations))
    rows = MetricAlarm.objects.filter(account_id=account_id)
    if rows.count() >= MOST_ALARMS and not rows.filter(name=params["AlarmName"]).exists():
        raise LimitExceeded(f"An account may have {MOST_ALARMS} alarms.")
    key = MetricSetKey(account_id, params["Namespace"], rules.dimensions_of(params))
    wanted = {"metric_set_id": key.set_id, "request": dict(params), "configured_at": now, "due_at": now}
    initial = {
        "id": new_uuid(),
        "state": AlarmStateValue.INSUFFICIENT_DATA,
        "reason": "Unchecked: Initial alarm creation",
        "state_since": now,
        "state_updated_at": now,
    }
    MetricAlarm.objects.update_or_create(
        account_id=account_id,
        name=params["AlarmName"],
        defaults={**wanted, "revision": F("revision") + 1},
        create_defaults={**wanted, **initial},
    )


def delete_alarms(account_id: str, names: Collection[str]) -> None:
    """Delete all of these alarms, or, where one of them is missing, none."""
    with transaction.atomic():
        rows = MetricAlarm.objects.select_for_update().filter(account_id=account_id, name__in=names)
        found = {row.name: row.id for row in rows.order_by("id")}
        missing = sorted(set(names) - set(found))
        if missing:
            raise AlarmNotFound(f"The alarms {', '.join(missing)} do not exist."[:255])
        MetricAlarm.objects.filter(id__in=found.values()).delete()


def set_alarm_state(account_id: str, params: Params, *, now: datetime) -> None:
    """Let an alarm say what its caller wants, until the next evaluation finds otherwise."""
    with transaction.atomic():
        row = MetricAlarm.objects.select_for_update().filter(account_id=account_id, name=params["AlarmName"]).first()
        if row is None:
            raise AlarmNotFound(f"The alarm {params['AlarmName']} does not exist."[:255])
        row.revision += 1
        row.reason_data = params.get("StateReasonData", "")
        _change(row, params["StateValue"], params["StateReason"], now)
        row.save()


def apply_verdict(row: MetricAlarm, verdict: Verdict, due_at: datetime, *, now: datetime) -> bool:
    """Keep what an evaluation found; False, and nothing is kept, where a caller changed the alarm meanwhile."""
    with transaction.atomic():
        kept = MetricAlarm.objects.select_for_update().filter(id=row.id, revision=row.revision).first()
        if kept is None:
            return False
        if verdict.state != kept.state:
            kept.reason_data = ""
            _change(kept, verdict.state, verdict.reason, now)
        kept.due_at = due_at
        kept.save()
    return True


def _change(row: MetricAlarm, state: str, reason: str, now: datetime) -> None:
    """Set state and reason on the row, and tell of it when the state is another one."""
    if state != row.state:
        row.state_since = now
        subject = Subject(row.account_id, "alarm", row.id, row.name[:EVENT_NAME_LIMIT])
        sentence = f"Alarm {row.name} went from {row.state} to {state}: {reason}"
        record(subject, "AlarmStateChanged", sentence, now=now, detail={"from": row.state, "to": state})
    row.state, row.reason, row.state_updated_at = state, reason[:REASON_LIMIT], now


def put_data(account_id: str, namespace: str, data: Sequence[Params], *, source: str, now: datetime) -> None:
    """Keep data of the caller's own; `source` names this call, so that writing it twice counts once."""
    rules.check_namespace(namespace)
    rules.check_data(data, now)
    gathered: dict[tuple[tuple[tuple[str, str], ...], int], dict[str, dict[str, list[Aggregate]]]] = {}
    for datum in data:
        place = tuple(sorted(rules.dimensions_of(datum).items())), _start(datum, now)
        units = gathered.setdefault(place, {}).setdefault(datum["MetricName"], {})
        units.setdefault(datum.get("Unit", UNIT), []).append(_aggregate(datum))
    buckets = [
        store.Bucket(MetricSetKey(account_id, namespace, dict(dimensions)), start, source, _merged(metrics))
        for (dimensions, start), metrics in gathered.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(store.WRITE, [store.rows(buckets)])


def _start(datum: Params, now: datetime) -> int:
    moment: datetime = datum.get("Timestamp", now)
    return bucket_start(moment.astimezone(UTC).timestamp())


def _aggregate(datum: Params) -> Aggregate:
    if "StatisticValues" in datum:
        given = datum["StatisticValues"]
        return Aggregate(given["SampleCount"], given["Sum"], given["Minimum"], given["Maximum"])
    values = datum.get("Values") or [datum["Value"]]
    return Aggregate.of(zip(values, datum.get("Counts", [1] * len(values)), strict=True))


def _merged(metrics: Mapping[str, Mapping[str, Sequence[Aggregate]]]) -> dict[str, dict[str, Aggregate]]:
    return {
        name: {unit: found for unit, parts in units.items() if (found := merged(parts)) is not None}
        for name, units in metrics.items()
    }
