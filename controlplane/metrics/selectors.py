"""Reading alarms. Selectors read and never lock."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from controlplane.metrics.models import MetricAlarm


@dataclass(frozen=True)
class AlarmState:
    """What an alarm says (`OK`, `ALARM` or `INSUFFICIENT_DATA`), why in a sentence, and since when."""

    state: str
    reason: str
    since: datetime


def alarm_states(account_id: str, names: Collection[str]) -> dict[str, AlarmState]:
    """The states of the account's alarms of these names; names that no alarm has are left out."""
    rows = MetricAlarm.objects.filter(account_id=account_id, name__in=names)
    return {row.name: AlarmState(row.state, row.reason, row.state_since) for row in rows}
