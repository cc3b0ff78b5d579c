"""Reading the fleet: memory, free slots, tries, times and costs, as the pure parts take them. Never locks."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from math import ceil
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Max, Q

from controlplane.catalog.limits import limits_of
from controlplane.catalog.prices import price_in, price_table
from controlplane.catalog.quotas import ALL, room
from controlplane.core.offerings import Mark, Offering, Pool
from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.ladder import Key, Tries
from controlplane.fleet.marks import shown_to
from controlplane.fleet.models import CapacityMark, Instance, LaunchAttempt
from controlplane.fleet.placement import Boots
from controlplane.fleet.spend import Stay
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS, AttemptStage, InstanceStage

BOOTS_KEPT = 200
"""So many of a type's latest starts are looked at: a new image or a new zone shows soon."""

CLOSING_KINDS = ("capacity", "quota", "unknown")
"""The kinds of refusal that close an offering."""

MarkKey = tuple[str, str, str]
"""Instance type, zone, market."""


def marks_of(account_id: str, instance_types: Collection[str]) -> dict[MarkKey, Mark]:
    """What is remembered of refusals of these types, as this account may see it."""
    where = {"provider": settings.HEADRACE.provider, "region": settings.HEADRACE.region}
    rows = shown_to(account_id, CapacityMark.objects.filter(**where, instance_type__in=instance_types))
    return {
        (row.instance_type, row.zone, row.market): Mark(
            row.kind, row.message, row.marked_at, row.until, row.seen_by, row.probe_expires_at
        )
        for row in rows
    }


def last_refusals(instance_types: Collection[str], since: datetime) -> dict[MarkKey, datetime]:
    """When each offering of these types was last refused to anybody since then, whatever became of its mark."""
    rows = LaunchAttempt.objects.filter(
        provider=settings.HEADRACE.provider,
        instance_type__in=instance_types,
        stage=AttemptStage.REFUSED,
        error_kind__in=CLOSING_KINDS,
        called_at__gte=since,
    )
    latest = rows.order_by().values_list("instance_type", "zone", "market").annotate(at=Max("ended_at"))
    return {(instance_type, zone, market): at for instance_type, zone, market, at in latest}


def markets_of(wanted: Sequence[str], sold: Sequence[str]) -> list[str]:
    """The markets that are asked, most wanted first: of those wanted the ones there are, else the provider's first."""
    return [market for market in wanted if market in sold] or list(sold[:1])


def offerings_of(
    pools: Iterable[Pool],
    zones: Iterable[str],
    markets: Iterable[str],
    marks: Mapping[MarkKey, Mark],
    room: Mapping[str, int],
) -> tuple[Offering, ...]:
    """The offerings of a variant in the planner's order: within a pool market by market, each zone by zone.

    `room` is what `quota_room` gave, or empty where quotas are somebody else's matter.
    """
    places = [(market, zone) for market in markets for zone in zones]
    prices = price_table()
    return tuple(
        Offering(
            pool,
            zone,
            marks.get((pool.instance_type, zone, market)),
            market,
            price_in(prices, pool.instance_type, market),
            room_for(pool.instance_type, room),
        )
        for pool in pools
        for market, zone in places
    )


def boots_of(provider: str, instance_types: Iterable[str]) -> dict[str, Boots]:
    """How long instances of these types took from launch to ready; types that never came up are missing."""
    found = {}
    for instance_type in set(instance_types):
        rows = Instance.objects.filter(provider=provider, instance_type=instance_type).exclude(ready_at=None)
        times = rows.order_by("-launched_at").values_list("launched_at", "ready_at")[:BOOTS_KEPT]
        seconds = sorted(max((ready_at - launched_at).total_seconds(), 0.0) for launched_at, ready_at in times)
        if seconds:
            found[instance_type] = Boots(_rank(seconds, 0.5), _rank(seconds, 0.9), len(seconds))
    return found


def _rank(ordered: list[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return ordered[ceil(share * len(ordered)) - 1]


def quota_room(account_id: str) -> dict[str, int]:
    """How many more instances of each type the account's quotas leave, with the total under `*`; no limit: missing.

    Counts what there is, not what is wanted: everything that a provider may still hold, and launches under way.
    """
    limits = limits_of(account_id)
    if not limits:
        return {}
    live = Instance.objects.filter(endpoint__account_id=account_id, stage__in=LIVE_STAGES)
    under_way = LaunchAttempt.objects.filter(endpoint__account_id=account_id, stage__in=OPEN_ATTEMPTS)
    used: Counter[str] = Counter()
    for rows in (live, under_way):
        used.update(dict(rows.order_by().values_list("instance_type").annotate(Count("pk"))))
    return room(limits, used)


def room_for(instance_type: str, room: Mapping[str, int]) -> int | None:
    """How many more instances of a type `quota_room` leaves, None where nothing limits it."""
    return min((room[name] for name in (instance_type, ALL) if name in room), default=None)


def tries_of(variants: Iterable[EndpointVariant]) -> dict[Key, Tries]:
    """What came of asking each offering of these variants, by pool, zone and market."""
    rows = LaunchAttempt.objects.filter(variant__in=list(variants)).order_by()
    counted = rows.values("pool_id", "zone", "market").annotate(
        asked=Count("pk"),
        launched=Count("pk", filter=Q(stage=AttemptStage.SUCCEEDED)),
        refused=Count("pk", filter=Q(stage=AttemptStage.REFUSED)),
        under_way=Count("pk", filter=Q(stage__in=OPEN_ATTEMPTS)),
        last_asked_at=Max("called_at"),
    )
    last = rows.exclude(error_kind="").order_by("pool_id", "zone", "market", "-called_at")
    failures = {
        (pool_id, zone, market): {"error_kind": kind, "message": message}
        for pool_id, zone, market, kind, message in last.distinct("pool_id", "zone", "market").values_list(
            "pool_id", "zone", "market", "error_kind", "message"
        )
    }
    found = {}
    for row in counted:
        key = (row.pop("pool_id"), row.pop("zone"), row.pop("market"))
        found[key] = Tries(**row, **failures.get(key, {}))
    return found


def stays_of(endpoint_id: UUID) -> list[Stay]:
    """The times of all instances of an endpoint that are still told of, in the order of their launch."""
    return stays_by_endpoint([endpoint_id])[endpoint_id]


def stays_by_endpoint(endpoint_ids: Collection[UUID]) -> dict[UUID, list[Stay]]:
    """`stays_of` for each of these endpoints; one query."""
    found: dict[UUID, list[Stay]] = {endpoint_id: [] for endpoint_id in endpoint_ids}
    rows = Instance.objects.filter(endpoint_id__in=endpoint_ids).select_related("variant").order_by("launched_at", "id")
    for row in rows:
        ended_at = row.stage_since if row.stage == InstanceStage.TERMINATED else None
        price = as_float(row.hourly_price)
        stay = Stay(row.variant.name, row.instance_type, row.market, price, row.launched_at, ended_at)
        found[row.endpoint_id].append(stay)
    return found


def as_float(price: Decimal | None) -> float | None:
    """A stored price as the pure parts take it."""
    return None if price is None else float(price)
