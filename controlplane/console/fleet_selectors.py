"""Reading the fleet as a whole: its instances by stage, type and time, and their cost. A fixed number of queries each."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Case, Count, DateTimeField, DurationField, ExpressionWrapper, F, Q, Sum, Value, When
from django.db.models.functions import Greatest

from controlplane.console.history import Change, Window
from controlplane.console.honeycomb import CELLS, Bee, Crowd
from controlplane.console.money import Group
from controlplane.console.words import exact
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import Instance
from controlplane.fleet.overdue import END_OVERDUE_SECONDS, is_overdue
from controlplane.fleet.selectors import as_float
from controlplane.fleet.states import LIVE_STAGES, InstanceStage
from controlplane.observability.models import Event

OVERDUE = "overdue"
LATEST_EVENTS = 8


@dataclass(frozen=True)
class Counts:
    """Endpoints by phase and instances by stage."""

    phases: dict[str, int]
    stages: dict[str, int]

    @property
    def endpoints(self) -> int:
        """All of them."""
        return sum(self.phases.values())

    @property
    def live(self) -> int:
        """Instances that the provider may still hold."""
        return sum(count for stage, count in self.stages.items() if stage != InstanceStage.TERMINATED)

    @property
    def ready(self) -> int:
        """Instances that serve."""
        return self.stages.get(InstanceStage.READY, 0)

    @property
    def is_changing(self) -> bool:
        """Whether anything is under way, so that looking again soon shows something new."""
        settled = (InstanceStage.READY, InstanceStage.TERMINATED)
        phases = any(count for phase, count in self.phases.items() if phase not in ("InService", "Failed"))
        return phases or any(count for stage, count in self.stages.items() if stage not in settled)


def counts() -> Counts:
    """How many there are of what."""
    phases = Endpoint.objects.values_list("phase").annotate(Count("id"))
    stages = Instance.objects.filter(stage__in=LIVE_STAGES).values_list("stage").annotate(Count("id"))
    return Counts(dict(phases), dict(stages))


def bees(by_type: bool, now: datetime) -> list[Bee]:
    """One bee for each live instance, sorted by group; as many as a honeycomb holds at most."""
    order = ("instance_type", "endpoint__name") if by_type else ("endpoint__name", "endpoint_id", "instance_type")
    rows = Instance.objects.filter(stage__in=LIVE_STAGES).order_by(*order, "launched_at", "id")
    found = rows.values_list(
        *("instance_type", "zone", "market", "provider_id", "stage", "stage_since", "reason"),
        *("endpoint__account_id", "endpoint__name"),
    )
    return [_bee(row, by_type, now) for row in found[:CELLS]]


def _bee(row: tuple[str, ...], by_type: bool, now: datetime) -> Bee:
    instance_type, zone, market, provider_id, stage, since, reason, account_id, endpoint = row
    shown = OVERDUE if is_overdue(stage, since, now) else stage
    # The time itself, not how long ago it is: so a part in which nothing happened stays the same, and is not sent again.
    told = f"{endpoint}: {instance_type} {provider_id} in {zone} ({market}), {shown} since {exact(since)}"
    title = f"{told}. {reason}" if reason else told
    return Bee(instance_type if by_type else endpoint, shown, title, account_id, endpoint)


def crowds(now: datetime) -> list[Crowd]:
    """Live instances by type and stage."""
    late = Q(stage=InstanceStage.TERMINATING, stage_since__lt=now - timedelta(seconds=END_OVERDUE_SECONDS))
    shown = Case(When(late, then=Value(OVERDUE)), default=F("stage"))
    rows = Instance.objects.filter(stage__in=LIVE_STAGES).annotate(shown=shown).order_by()
    return [Crowd(*row) for row in rows.values_list("instance_type", "shown").annotate(Count("id"))]


def first_launch() -> datetime | None:
    """When the first instance that is still told of was launched."""
    first: datetime | None = Instance.objects.order_by("launched_at").values_list("launched_at", flat=True).first()
    return first


_CHANGES = """
SELECT instance_type, date_bin(%(step)s, at, %(start)s), sum(delta)::int FROM (
  SELECT instance_type, launched_at AS at, 1 AS delta FROM fleet_instance WHERE launched_at >= %(start)s
  UNION ALL
  SELECT instance_type, stage_since, -1 FROM fleet_instance WHERE stage = 'terminated' AND stage_since >= %(start)s
) AS change GROUP BY 1, 2
"""
_AT_START = """
SELECT instance_type, count(*)::int FROM fleet_instance
WHERE launched_at < %(start)s
  AND (stage = ANY(%(live)s) OR (stage = 'terminated' AND stage_since >= %(start)s)) GROUP BY 1
"""
"""Stages are named, not excluded: so both halves are found by the index on them."""


def changes(window: Window) -> tuple[dict[str, int], list[Change]]:
    """How many instances of each type there were when the window began, and what changed within it."""
    given = {"start": window.start, "step": window.step, "live": [str(stage) for stage in LIVE_STAGES]}
    with connection.cursor() as cursor:
        cursor.execute(_AT_START, given)
        at_start = dict(cursor.fetchall())
        cursor.execute(_CHANGES, given)
        return at_start, [
            Change(name, round((at - window.start) / window.step), delta) for name, at, delta in cursor.fetchall()
        ]


def spend_groups(since: datetime, now: datetime) -> list[Group]:
    """What ran between `since` and `now`, by type, market and price."""
    ended = Case(
        When(stage=InstanceStage.TERMINATED, then=F("stage_since")), default=Value(now), output_field=DateTimeField()
    )
    lived = ExpressionWrapper(F("ended") - Greatest(F("launched_at"), Value(since)), output_field=DurationField())
    ran = Q(stage__in=LIVE_STAGES) | Q(stage=InstanceStage.TERMINATED, stage_since__gt=since)
    rows = Instance.objects.filter(ran).order_by().annotate(ended=ended)
    grouped = rows.values_list("instance_type", "market", "hourly_price").annotate(
        lived=Sum(lived), running=Count("id", filter=~Q(stage=InstanceStage.TERMINATED))
    )
    return [
        Group(instance_type, market, as_float(price), max(lived.total_seconds(), 0.0) / 3600, running)
        for instance_type, market, price, lived, running in grouped
    ]


def latest_events(count: int = LATEST_EVENTS) -> Iterable[Event]:
    """What happened last, the latest first."""
    return list(Event.objects.order_by("-id")[:count])
