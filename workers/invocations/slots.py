"""Which instances of an endpoint may take how many more invocations."""

import random
from collections.abc import Mapping, Sequence
from uuid import UUID

from controlplane.routing.table import Route, VariantRoute

DEFAULT_CONCURRENCY = 4
"""Calls at once on each instance where MaxConcurrentInvocationsPerInstance is not given."""


def free_slots(route: Route, running: Mapping[UUID, int]) -> list[UUID]:
    """One entry for each free slot, emptiest instances first, so that work spreads; `running` is by instance."""
    if not route.is_serving:
        return []
    cap = route.async_inference.max_concurrent if route.async_inference else None
    cap = cap or DEFAULT_CONCURRENCY
    taking = [variant for variant in route.variants if variant.share > 0]
    ids = [UUID(target.instance_id) for variant in taking for target in variant.open_targets]
    levels = sorted((level, place, key) for place, key in enumerate(ids) for level in range(running.get(key, 0), cap))
    slots = [key for _, _, key in levels]
    if all(variant.share == 1 for variant in taking):
        return slots
    return _by_share(slots, taking)


def _by_share(slots: list[UUID], variants: Sequence[VariantRoute]) -> list[UUID]:
    """The slots in a random order in which each revision comes first as often as its share of the calls says.

    A weighted shuffle: the smallest of exponential draws with these rates (Efraimidis and Spirakis 2006).
    """
    rates = {
        UUID(target.instance_id): variant.share / len(variant.open_targets)
        for variant in variants
        for target in variant.open_targets
    }
    return sorted(slots, key=lambda slot: random.expovariate(rates[slot]))
