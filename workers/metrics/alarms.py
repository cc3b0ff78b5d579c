"""Evaluating the alarms that are due: load, decide (`evaluate`, pure), keep what was found.

Several schedulers may evaluate one alarm at the same time: they find the same, and the first to change its state tells
of it. What an alarm's caller changes meanwhile stays (`services.apply_verdict`).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controlplane.metrics import rules, services
from controlplane.metrics.evaluate import Rule, Verdict, evaluate, next_look, window_ends
from controlplane.metrics.models import MetricAlarm
from controlplane.metrics.read import Found, Wanted, read, windows
from controlplane.metrics.statistics import SIMPLE_STATISTICS, statistic

BATCH = 500
"""Alarms that one round evaluates; those beyond wait for the next, a moment later."""

UNREADABLE_SECONDS = 60.0

log = logging.getLogger(__name__)


def evaluate_due(now: datetime) -> int:
    """Evaluate what is due, the longest due first; returns how many alarms changed their state."""
    due = MetricAlarm.objects.filter(due_at__lte=now).order_by("due_at")[:BATCH]
    looks = [look for row in due if (look := _prepared(row, now)) is not None]
    if not looks:
        return 0
    found = read([look.wanted for look in looks])
    unchanged: dict[datetime, list[MetricAlarm]] = {}
    changes = 0
    for look, data in zip(looks, found, strict=True):
        row, verdict, look_again_at = look.row, look.verdict(data), _moment(next_look(look.rule, now.timestamp()))
        if verdict.state == row.state:
            unchanged.setdefault(look_again_at, []).append(row)
        elif services.apply_verdict(row, verdict, look_again_at, now=now):
            changes += 1
            log.info("alarm %s of account %s is %s: %s", row.name, row.account_id, verdict.state, verdict.reason)
    for look_again_at, rows in unchanged.items():
        _postpone(rows, look_again_at, now)
    return changes


@dataclass(frozen=True)
class _Look:
    """One alarm that is being looked at."""

    row: MetricAlarm
    rule: Rule
    statistic: str
    wanted: Wanted

    def verdict(self, found: Found) -> Verdict:
        """What the alarm says by what was counted."""
        newest, rule = int(self.wanted.until.timestamp()), self.rule
        counted = windows(found.buckets, newest, rule.period_seconds, rule.range_periods)
        points = [None if each is None else statistic(each, self.statistic) for each in counted]
        return evaluate(rule, points, self.row.state)


def _prepared(row: MetricAlarm, now: datetime) -> _Look | None:
    """What to read for an alarm. One whose stored request cannot be understood must not keep others from being heard."""
    try:
        request, rule = row.request, rules.rule_of(row.request)
        ends = window_ends(rule, now.timestamp())
        since = _moment(ends[0] - rule.period_seconds)
        name = request.get("Statistic") or request["ExtendedStatistic"]
        span = since, _moment(ends[-1])
        wanted = Wanted(row.metric_set_id, request["MetricName"], request.get("Unit"), *span, name not in SIMPLE_STATISTICS)
        return _Look(row, rule, name, wanted)
    except (KeyError, TypeError, ValueError):
        log.exception("alarm %s of account %s cannot be evaluated", row.name, row.account_id)
        _postpone([row], now + timedelta(seconds=UNREADABLE_SECONDS), now)
        return None


def _postpone(rows: Sequence[MetricAlarm], look_again_at: datetime, now: datetime) -> None:
    """Look again later, unless a caller has changed the alarm and so made it due again."""
    ids = [row.id for row in rows]
    MetricAlarm.objects.filter(id__in=ids, due_at__lte=now).update(due_at=max(look_again_at, now + timedelta(seconds=1)))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
