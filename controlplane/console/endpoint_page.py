"""What the page of one endpoint shows, gathered: where it stands and why, its search, its instances, its deployment."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from controlplane.catalog.prices import price_in, price_table
from controlplane.catalog.selectors import tags_of
from controlplane.console import endpoint_words as words
from controlplane.console.endpoint_backlog import backlog_of
from controlplane.console.endpoint_shown import InstanceLine, Pool, Revision, Rollout, Rung, State, Variant
from controlplane.core.offerings import ON_DEMAND
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.states import Phase
from controlplane.fleet.explanations import VariantStory, explain
from controlplane.fleet.in_flight import calls_at
from controlplane.fleet.ladder import Step
from controlplane.fleet.leaving import live_instances
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.fleet.overdue import is_overdue
from controlplane.fleet.states import LEAVING_STAGES, InstanceStage
from controlplane.observability.models import Event
from controlplane.observability.stories import story_of

INSTANCES_SHOWN = 200
"""Of one variant, those with a story first; the rest is counted."""

EVENTS_SHOWN = 40


def find(account_id: str, name: str) -> Endpoint | None:
    """The endpoint of this name, whatever the case; None when it is gone."""
    return Endpoint.objects.filter(account_id=account_id, name__iexact=name).first()


def state(endpoint: Endpoint, now: datetime) -> State:
    """Where the endpoint stands. Its queries do not depend on how many endpoints or instances there are."""
    explanation = explain(endpoint, now, events_shown=0)
    rows = list(endpoint.variants.filter(retired_at=None).prefetch_related("pools"))
    instances = live_instances(endpoint)
    calls = calls_at(instances, now)
    marks = _mark_ids(rows)
    prices = price_table()
    stories = {(story.revision, story.name): story for story in explanation.variants}
    variants = tuple(
        _variant(row, stories[row.revision, row.name], _Facts(endpoint, instances, calls, marks, prices, now))
        for row in rows
        if (row.revision, row.name) in stories
    )
    return State(
        endpoint,
        explanation,
        words.LABELS[endpoint.phase],
        words.TONES[endpoint.phase],
        variants,
        _rollout(Deployment.objects.filter(endpoint=endpoint).first()),
        backlog_of(endpoint, calls) if endpoint.is_async else None,
    )


@dataclass(frozen=True)
class _Facts:
    endpoint: Endpoint
    instances: Sequence[Instance]
    calls: Mapping[UUID, int]
    marks: Mapping[tuple[str, str, str], int]
    prices: Mapping[str, float]
    now: datetime


def _variant(row: EndpointVariant, story: VariantStory, facts: _Facts) -> Variant:
    own = [instance for instance in facts.instances if instance.variant_id == row.id]
    lines = sorted((_line(instance, facts) for instance in own), key=_by_story)
    serving = Counter(instance.instance_type for instance in own if instance.stage == InstanceStage.READY)
    return Variant(
        row=row,
        story=story,
        is_of_service=row.revision == facts.endpoint.revision,
        pools=tuple(_pool(pool, facts.prices) for pool in row.pools.all()),
        ladder=tuple(Rung(step, _mark_of(step, facts.marks)) for step in story.ladder),
        instances=tuple(lines[:INSTANCES_SHOWN]),
        instances_left_out=max(len(lines) - INSTANCES_SHOWN, 0),
        fleet=words.fleet(serving),
    )


def _pool(row: VariantPool, prices: Mapping[str, float]) -> Pool:
    price = price_in(prices, row.instance_type, ON_DEMAND)
    return Pool(row.priority, row.instance_type, row.model_name, row.current_count, price)


def _line(row: Instance, facts: _Facts) -> InstanceLine:
    late = is_overdue(row.stage, row.stage_since, facts.now)
    return InstanceLine(
        row=row,
        short_id=str(row.id)[:8],
        tone="bad" if late or row.failed_pings else words.STAGE_TONES[row.stage],
        calls=facts.calls.get(row.id, 0),
        is_overdue=late,
        may_leave=row.stage not in LEAVING_STAGES and facts.endpoint.phase != Phase.DELETING,
    )


def _by_story(line: InstanceLine) -> tuple[bool, bool, datetime]:
    """What is in trouble first, then what does not serve, then by age."""
    return (line.tone != "bad", line.row.stage == InstanceStage.READY and not line.row.leave, line.row.launched_at)


def _mark_ids(rows: Sequence[EndpointVariant]) -> dict[tuple[str, str, str], int]:
    """The marks on the types of these variants, by type, zone and market."""
    kinds = {pool.instance_type for row in rows for pool in row.pools.all()}
    where = {"provider": settings.HEADRACE.provider, "region": settings.HEADRACE.region, "instance_type__in": kinds}
    found = CapacityMark.objects.filter(**where).values_list("instance_type", "zone", "market", "id")
    return {(kind, zone, market): mark_id for kind, zone, market, mark_id in found}


def _mark_of(step: Step, marks: Mapping[tuple[str, str, str], int]) -> int | None:
    offering = step.rung.offering
    return marks.get((offering.pool.instance_type, offering.zone, offering.market))


def _rollout(row: Deployment | None) -> Rollout | None:
    if row is None:
        return None
    is_going_back = row.stage == "rolling back"
    return Rollout(
        row, words.strategy(row.strategy), words.stops(row.strategy, row.stage), round(row.share * 100), is_going_back
    )


def revisions(endpoint: Endpoint) -> tuple[Revision, ...]:
    """The configurations it has had, the newest first."""
    deployment = Deployment.objects.filter(endpoint=endpoint).first()
    by_number: dict[int, list[EndpointVariant]] = {}
    for row in endpoint.variants.order_by("-revision", "position").prefetch_related("pools"):
        by_number.setdefault(row.revision, []).append(row)
    return tuple(
        Revision(
            number,
            variants[0].config_name,
            variants[0].copied_at,
            _standing(number, endpoint, deployment),
            "; ".join(f"{row.name}: {', '.join(pool.instance_type for pool in row.pools.all())}" for row in variants),
        )
        for number, variants in by_number.items()
    )


def _standing(revision: int, endpoint: Endpoint, deployment: Deployment | None) -> str:
    if revision == endpoint.revision:
        return "in service" if endpoint.phase not in (Phase.CREATING, Phase.FAILED) else "first one"
    if deployment is not None and revision == deployment.to_revision:
        return "being rolled out"
    return "earlier"


def tags(endpoint: Endpoint) -> list[dict[str, str]]:
    """The endpoint's tags."""
    return tags_of(endpoint.id)


def story(account_id: str, name: str, endpoint: Endpoint | None) -> "QuerySet[Event]":
    """What happened to the endpoint, or to the last one of this name, the latest first."""
    return story_of(account_id, name, endpoint.id if endpoint else None).order_by("-id")
