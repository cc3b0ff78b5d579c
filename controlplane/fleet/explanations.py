"""Gathering an explanation: where an endpoint stands, why, what was tried, what comes next, and what it has cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from controlplane.core.offerings import ON_DEMAND, Mark, Pool, Search
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.options import Options
from controlplane.endpoints.selectors import options_of, standing_variants
from controlplane.endpoints.states import Phase
from controlplane.fleet.ladder import Key, Step, Tries, steps
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.selectors import (
    MarkKey,
    as_float,
    markets_of,
    marks_of,
    offerings_of,
    quota_room,
    stays_of,
    tries_of,
)
from controlplane.fleet.spend import PoolSpend, Spend, by_pool, total
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS, WANTED_STAGES
from controlplane.observability.models import Event
from controlplane.observability.offers import offer_of

EVENTS_SHOWN = 20

IN_WORDS = {
    Phase.CREATING: "It is being created: instances are searched for and started.",
    Phase.IN_SERVICE: "Its instances are kept at their number: those that fail are replaced.",
    Phase.UPDATING: "It serves, and a change is being made.",
    Phase.ROLLING_BACK: "It serves; a change failed and is being undone.",
    Phase.UPDATE_ROLLBACK_FAILED: "A change failed and so did undoing it. What there is serves: update it again.",
    Phase.FAILED: "It could not be created. Nothing runs and nothing is tried any more: delete it.",
    Phase.DELETING: "It is being deleted: what runs is ended first.",
}

_GIVES_UP = (Phase.CREATING, Phase.UPDATING)
"""Phases in which a search ends with its budget; in steady state healing never gives up."""


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


@dataclass(frozen=True)
class _Facts:
    """What the stories of all variants are made from."""

    options: Options
    live: tuple[Instance, ...]
    under_way: tuple[LaunchAttempt, ...]
    tries: Mapping[Key, Tries]
    marks: Mapping[MarkKey, Mark]
    room: Mapping[str, int]
    now: datetime


def explain(endpoint: Endpoint, now: datetime, events_shown: int = EVENTS_SHOWN) -> Explanation:
    """The story of `endpoint` as the stored facts tell it at `now`."""
    variants = list(standing_variants(endpoint))
    facts = _facts(endpoint, variants, now)
    events = Event.objects.filter(subject_id=endpoint.id).order_by("-id")[:events_shown]
    return Explanation(
        at=now,
        endpoint=endpoint,
        in_words=IN_WORDS[Phase(endpoint.phase)],
        options=facts.options,
        variants=tuple(_story(variant, endpoint, facts) for variant in variants),
        spend=by_pool(stays_of(endpoint.id), now),
        events=tuple(reversed(events)),
    )


def _facts(endpoint: Endpoint, variants: Sequence[EndpointVariant], now: datetime) -> _Facts:
    kinds = {pool.instance_type for variant in variants for pool in variant.pools.all()}
    return _Facts(
        options=options_of(endpoint),
        live=tuple(Instance.objects.filter(endpoint=endpoint, stage__in=LIVE_STAGES).order_by("launched_at", "id")),
        under_way=tuple(LaunchAttempt.objects.filter(endpoint=endpoint, stage__in=OPEN_ATTEMPTS)),
        tries=tries_of(variants),
        marks=marks_of(endpoint.account_id, kinds),
        room=quota_room(endpoint.account_id),
        now=now,
    )


def _story(variant: EndpointVariant, endpoint: Endpoint, facts: _Facts) -> VariantStory:
    instances = [row for row in facts.live if row.variant_id == variant.id]
    there = sum(row.stage in WANTED_STAGES for row in instances)
    is_short = there + sum(row.variant_id == variant.id for row in facts.under_way) < variant.desired_count
    is_searching = is_short and endpoint.phase not in (Phase.FAILED, Phase.DELETING)
    return VariantStory(
        name=variant.name,
        revision=variant.revision,
        current_count=variant.current_count,
        desired_count=variant.desired_count,
        gives_up_at=variant.provision_deadline if is_searching and endpoint.phase in _GIVES_UP else None,
        rests_until=variant.launch_not_before if is_searching else None,
        start_failures=variant.start_failures,
        start_failure_reason=variant.start_failure_reason,
        ladder=steps(_search(variant, facts), facts.tries, facts.now, is_short=is_searching),
        instances=tuple(_instance(row) for row in instances),
    )


def _search(variant: EndpointVariant, facts: _Facts) -> Search:
    """The variant's search for one more instance, as the planner would see it."""
    zones, markets = _places(variant, facts.options, facts.tries)
    offerings = offerings_of(_pools(variant, facts.options), zones, markets, facts.marks, facts.room)
    return Search(offerings, variant.short_since, variant.launch_not_before, _headroom(facts))


def _headroom(facts: _Facts) -> float | None:
    """What one more instance may cost an hour: the ceiling less everything that costs already, or may."""
    ceiling = facts.options.hourly_ceiling
    if ceiling is None:
        return None
    return ceiling - sum(as_float(row.hourly_price) or 0.0 for row in (*facts.live, *facts.under_way))


def _pools(variant: EndpointVariant, options: Options) -> list[Pool]:
    return [
        Pool(row.id, row.priority, row.position, row.instance_type, options.patience_seconds.get(row.instance_type, 0.0))
        for row in variant.pools.all()
    ]


def _places(variant: EndpointVariant, options: Options, tries: Mapping[Key, Tries]) -> tuple[list[str], list[str]]:
    """The zones and markets of the ladder: what the provider offers, and wherever this variant has asked before."""
    offer = offer_of(settings.HEADRACE.provider)
    pool_ids = {pool.id for pool in variant.pools.all()}
    asked = sorted((zone, market) for pool_id, zone, market in tries if pool_id in pool_ids)
    zones = dict.fromkeys([*(offer.zones if offer else ()), *(zone for zone, _ in asked)])
    sold = offer.markets if offer else (ON_DEMAND,)
    markets = dict.fromkeys([*markets_of(options.markets, sold), *(market for _, market in asked)])
    return list(zones), list(markets)


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
