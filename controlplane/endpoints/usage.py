"""What an account's endpoints ask for, against its quotas. Called by the services, inside their transactions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from django.db.models import QuerySet

from controlplane.auth import accounts
from controlplane.catalog.limits import limits_of
from controlplane.catalog.models import Variant
from controlplane.catalog.quotas import Demand, Usage, first_excess
from controlplane.core.errors import ResourceLimitExceeded
from controlplane.endpoints.models import EndpointVariant, VariantPool
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
    accounts.lock(account_id)
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
    for _, group in groupby(_standing(account_id), key=itemgetter(0)):
        pools = list(group)
        left = _wanted(wanted, *pools[0][:5])
        for *_, instance_type, current in pools:
            serving = min(current, left)
            placed[instance_type] += serving
            left -= serving
        missing[tuple(pool[5] for pool in pools)] += left
    return Usage(placed, tuple(Demand(types, count) for types, count in missing.items() if count))


def _standing(account_id: str) -> "QuerySet[VariantPool]":
    """The pools of what the account's active endpoints have, variant by variant in the pools' own order.

    As plain rows: whoever asks for more waits for this, and an account may have thousands of endpoints.
    """
    rows = VariantPool.objects.filter(variant__endpoint__account_id=account_id, variant__retired_at=None)
    rows = rows.exclude(variant__endpoint__phase__in=INACTIVE).order_by("variant_id", "priority", "position")
    return rows.values_list(
        *("variant_id", "variant__revision", "variant__endpoint__revision", "variant__desired_count"),
        *("variant__full_count", "instance_type", "current_count"),
    )


def _wanted(wanted: Mapping[int, int], variant_id: int, revision: int, in_service: int, desired: int, full: int) -> int:
    """How many a variant counts with: as `wanted` says, else as stored; one still being rolled out counts whole."""
    if variant_id in wanted:
        return wanted[variant_id]
    return desired if revision == in_service else max(desired, full)


def _types(variant: EndpointVariant) -> tuple[str, ...]:
    """The variant's instance types, most wanted first (the pools' own order)."""
    return tuple(pool.instance_type for pool in variant.pools.all())
