"""Gathering an explanation: where an endpoint stands, why, what was tried, what comes next, and what it has cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from controlplane.core.offerings import ON_DEMAND, Pool, Search
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.options import Options
from controlplane.endpoints.selectors import options_of, standing_variants
from controlplane.endpoints.states import Phase
from controlplane.fleet.ladder import Key, Step, Tries, steps
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.selectors import as_float, marks_of, offerings_of, stays_of, tries_of
from controlplane.fleet.spend import PoolSpend, Spend, by_pool, total
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS, InstanceStage
from controlplane.observability.models import Event
from controlplane.observability.offers import offer_of

EVENTS_SHOWN = 20

IN_WORDS = {
    Phase.CREATING: "It is being created: instances are searched for and started.",
    Phase.IN_SERVICE: "It serves. Instances that fail are replaced.",
    Phase.UPDATING: "It serves, and a change is being made.",
    Phase.ROLLING_BACK: "It serves; a change failed and is being undone.",
    Phase.UPDATE_ROLLBACK_FAILED: "A change failed and so did undoing it. What there is serves: update it again.",
    Phase.FAILED: "It could not be created. Nothing runs and nothing is tried any more: delete it.",
    Phase.DELETING: "It is being deleted: what runs is ended first.",
}

_ON_THE_WAY = (InstanceStage.PENDING, InstanceStage.STARTING, InstanceStage.READY)


@dataclass(frozen=True)
class InstanceStory:
    """One live instance: its stage, since when, and why."""

    id: str
    instance_type: str
    zone: str
    market: str
    stage: str
    since: datetime
    reason: str
    hourly_price: float | None


@dataclass(frozen=True)
class VariantStory:
    """One variant of one revision: its counts, the clocks of its search, its ladder and its instances."""

    name: str
    revision: int
    current_count: int
    desired_count: int
    gives_up_at: datetime | None
    rests_until: datetime | None
    start_failures: int
    start_failure_reason: str
    ladder: tuple[Step, ...]
    instances: tuple[InstanceStory, ...]


@dataclass(frozen=True)
class Explanation:
    """The whole story of an endpoint as of `at`; events the oldest first."""

    at: datetime
    endpoint: Endpoint
    in_words: str
    options: Options
    variants: tuple[VariantStory, ...]
    spend: tuple[PoolSpend, ...]
    events: tuple[Event, ...]

    @property
    def total_spend(self) -> Spend:
        """All that it has cost."""
        return total(self.spend)


def explain(endpoint: Endpoint, now: datetime, events_shown: int = EVENTS_SHOWN) -> Explanation:
    """The story of `endpoint` as the stored facts tell it at `now`."""
    variants = list(standing_variants(endpoint))
    live = list(Instance.objects.filter(endpoint=endpoint, stage__in=LIVE_STAGES).order_by("launched_at", "id"))
    under_way = list(LaunchAttempt.objects.filter(endpoint=endpoint, stage__in=OPEN_ATTEMPTS))
    options = options_of(endpoint)
    events = Event.objects.filter(subject_id=endpoint.id).order_by("-id")[:events_shown]
    return Explanation(
        at=now,
        endpoint=endpoint,
        in_words=IN_WORDS[Phase(endpoint.phase)],
        options=options,
        variants=tuple(_stories(variants, live, under_way, options, now)),
        spend=by_pool(stays_of(endpoint.id), now),
        events=tuple(reversed(events)),
    )


def _stories(
    variants: Sequence[EndpointVariant],
    live: Sequence[Instance],
    under_way: Sequence[LaunchAttempt],
    options: Options,
    now: datetime,
) -> list[VariantStory]:
    tries = tries_of(variants)
    headroom = _headroom(options.hourly_ceiling, live, under_way)
    marks = marks_of(settings.HEADRACE.provider, {pool.instance_type for each in variants for pool in each.pools.all()})
    stories = []
    for variant in variants:
        offerings = offerings_of(_pools(variant, options), *_places(variant, options, tries), marks)
        search = Search(offerings, variant.short_since, variant.launch_not_before, headroom)
        own = [instance for instance in live if instance.variant_id == variant.id]
        there = sum(instance.stage in _ON_THE_WAY for instance in own)
        there += sum(attempt.variant_id == variant.id for attempt in under_way)
        is_short = there < variant.desired_count
        stories.append(_story(variant, steps(search, tries, now, is_short=is_short), own, is_short=is_short))
    return stories


def _headroom(ceiling: float | None, live: Sequence[Instance], under_way: Sequence[LaunchAttempt]) -> float | None:
    """What one more instance may cost an hour: the ceiling less everything that costs already, or may."""
    if ceiling is None:
        return None
    return ceiling - sum(as_float(row.hourly_price) or 0.0 for row in (*live, *under_way))


def _pools(variant: EndpointVariant, options: Options) -> list[Pool]:
    return [
        Pool(row.id, row.priority, row.position, row.instance_type, options.patience_seconds.get(row.instance_type, 0.0))
        for row in variant.pools.all()
    ]


def _places(variant: EndpointVariant, options: Options, tries: dict[Key, Tries]) -> tuple[list[str], list[str]]:
    """The zones and markets of the ladder: what the provider offers, and wherever this variant has asked before."""
    offer = offer_of(settings.HEADRACE.provider)
    pool_ids = {pool.id for pool in variant.pools.all()}
    asked = sorted((zone, market) for pool_id, zone, market in tries if pool_id in pool_ids)
    zones = dict.fromkeys([*(offer.zones if offer else ()), *(zone for zone, _ in asked)])
    sold = offer.markets if offer else (ON_DEMAND,)
    markets = dict.fromkeys([*(each for each in options.markets if each in sold), *(market for _, market in asked)])
    return list(zones), list(markets)


def _story(
    variant: EndpointVariant, ladder: tuple[Step, ...], instances: Sequence[Instance], *, is_short: bool
) -> VariantStory:
    return VariantStory(
        name=variant.name,
        revision=variant.revision,
        current_count=variant.current_count,
        desired_count=variant.desired_count,
        gives_up_at=variant.provision_deadline if is_short else None,
        rests_until=variant.launch_not_before if is_short else None,
        start_failures=variant.start_failures,
        start_failure_reason=variant.start_failure_reason,
        ladder=ladder,
        instances=tuple(_instance(row) for row in instances),
    )


def _instance(row: Instance) -> InstanceStory:
    return InstanceStory(
        str(row.id),
        row.instance_type,
        row.zone,
        row.market,
        row.stage,
        row.stage_since,
        row.reason,
        as_float(row.hourly_price),
    )
