"""What an account's endpoints ask for, against its quotas. Called by the services, inside their transactions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from controlplane.auth.models import Account
from controlplane.catalog.limits import limits_of
from controlplane.catalog.models import Variant
from controlplane.catalog.quotas import Demand, Usage, first_excess
from controlplane.core.errors import ResourceLimitExceeded
from controlplane.endpoints.models import EndpointVariant
from controlplane.endpoints.states import Phase

INACTIVE = (Phase.FAILED, Phase.DELETING)
"""Phases in which an endpoint wants no instances."""


def check(account_id: str, demands: Sequence[Demand], wanted: Mapping[int, int] | None = None) -> None:
    """Raise ResourceLimitExceeded unless `demands` fit on top of what the account's endpoints want already.

    `wanted` names variants (by id) that count with another number than the stored one: those that the request changes.
    Call it in the transaction that stores the wish: it locks the account's row, so that of two requests at once the
    second sees what the first has stored. An account without quotas is not locked.
    """
    limits = limits_of(account_id)
    if not limits or not any(demand.count for demand in demands):
        return
    Account.objects.select_for_update(no_key=True).get(pk=account_id)
    excess = first_excess(limits, usage_of(account_id, wanted or {}), demands)
    if excess is not None:
        raise ResourceLimitExceeded(str(excess))


def check_increase(account_id: str, changes: Iterable[tuple[EndpointVariant, int]]) -> None:
    """`check` for variants that are to have other counts; what shrinks is free for what grows."""
    wished = list(changes)
    demands = [Demand(_types(variant), max(count - variant.desired_count, 0)) for variant, count in wished]
    check(account_id, demands, {variant.id: min(count, variant.desired_count) for variant, count in wished})


def demands_of(variants: Iterable[Variant]) -> list[Demand]:
    """What the variants of a configuration ask for."""
    return [
        Demand(tuple(pool.instance_type for pool in variant.pools.all()), variant.initial_instance_count)
        for variant in variants
    ]


def usage_of(account_id: str, wanted: Mapping[int, int]) -> Usage:
    """What the account's active endpoints want: what serves by its type, the rest by the types it may land on.

    A variant with more instances than it wants is shrinking: the fallbacks go first, so they count last. A revision that
    is still being rolled out counts whole, on top of the one in service.
    """
    placed: Counter[str] = Counter()
    missing: Counter[tuple[str, ...]] = Counter()
    rows = EndpointVariant.objects.filter(endpoint__account_id=account_id, retired_at=None)
    for variant in rows.exclude(endpoint__phase__in=INACTIVE).select_related("endpoint").prefetch_related("pools"):
        left = wanted.get(variant.id, _wanted(variant))
        for pool in variant.pools.all():
            serving = min(pool.current_count, left)
            placed[pool.instance_type] += serving
            left -= serving
        missing[_types(variant)] += left
    return Usage(placed, tuple(Demand(types, count) for types, count in missing.items() if count))


def _wanted(variant: EndpointVariant) -> int:
    if variant.revision == variant.endpoint.revision:
        return variant.desired_count
    return max(variant.desired_count, variant.full_count)


def _types(variant: EndpointVariant) -> tuple[str, ...]:
    """The variant's instance types, most wanted first (the pools' own order)."""
    return tuple(pool.instance_type for pool in variant.pools.all())
