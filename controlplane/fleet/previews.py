"""Gathering what a preview is made from. Reads live memory, changes nothing, asks no provider."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from controlplane.catalog.limits import limits_of
from controlplane.catalog.models import EndpointConfig
from controlplane.catalog.quotas import Demand, first_excess
from controlplane.core.errors import ServiceUnavailable
from controlplane.core.offerings import Pool, preference
from controlplane.endpoints.options import Options
from controlplane.endpoints.usage import usage_of
from controlplane.fleet.placement import Circumstances, Preview, Supply, Wanted
from controlplane.fleet.selectors import boots_of, markets_of, marks_of, offerings_of, quota_room
from controlplane.fleet.walk import preview
from controlplane.observability.offers import Offer, offer_of


@dataclass(frozen=True)
class VariantPlan:
    """A variant as it would be deployed: (priority, instance type) pools in list order, budget in seconds."""

    name: str
    count: int
    pools: tuple[tuple[int, str], ...]
    budget_seconds: float

    @property
    def types(self) -> tuple[str, ...]:
        """Its instance types, most wanted first."""
        return tuple(kind for _, kind in sorted(self.pools, key=lambda pool: pool[0]))


def of_config(config: EndpointConfig) -> list[VariantPlan]:
    """The variants of a stored configuration."""
    return [
        VariantPlan(
            row.name,
            row.initial_instance_count,
            tuple((pool.priority, pool.instance_type) for pool in row.pools.order_by("position")),
            row.provision_timeout_seconds or settings.HEADRACE.provision_timeout_seconds,
        )
        for row in config.variants.all()
    ]


def of_request(variants: Iterable[Mapping[str, Any]]) -> list[VariantPlan]:
    """The ProductionVariants of a CreateEndpointConfig request that has been found valid."""
    return [
        VariantPlan(
            each["VariantName"],
            each["InitialInstanceCount"],
            tuple(
                (pool["Priority"], pool["InstanceType"])
                for pool in each.get("InstancePools") or [{"Priority": 1, "InstanceType": each["InstanceType"]}]
            ),
            each.get("VariantInstanceProvisionTimeoutInSeconds") or settings.HEADRACE.provision_timeout_seconds,
        )
        for each in variants
    ]


def make(account_id: str, plans: Sequence[VariantPlan], options: Options, now: datetime) -> Preview:
    """Where the instances of these variants would land for this account if an endpoint were created now."""
    offer = offer_of(settings.HEADRACE.provider)
    if offer is None:
        raise ServiceUnavailable("The scheduler has not yet said what the provider offers. Try again in a moment.")
    kinds = {kind for plan in plans for kind in plan.types}
    marks = marks_of(account_id, kinds)
    markets = markets_of(options.markets, offer.markets)
    wanted = [
        Wanted(
            plan.name,
            plan.count,
            offerings_of(_pools(plan, options), offer.zones, markets, marks, {}),
            plan.budget_seconds,
        )
        for plan in plans
    ]
    return preview(wanted, _circumstances(account_id, kinds, options, offer), now, _refusal(account_id, plans))


def _pools(plan: VariantPlan, options: Options) -> list[Pool]:
    pools = [
        Pool(place, priority, place, kind, options.patience_seconds.get(kind, 0.0))
        for place, (priority, kind) in enumerate(plan.pools)
    ]
    return sorted(pools, key=preference)


def _circumstances(account_id: str, kinds: Iterable[str], options: Options, offer: Offer) -> Circumstances:
    return Circumstances(
        supply=Supply(offer.free, offer.otherwise, None if offer.otherwise is None else offer.seen_at),
        room=quota_room(account_id),
        ceiling=options.hourly_ceiling,
        mark_seconds=settings.HEADRACE.capacity_mark_seconds,
        boots=boots_of(settings.HEADRACE.provider, kinds),
    )


def _refusal(account_id: str, plans: Sequence[VariantPlan]) -> str:
    """The quota error that CreateEndpoint would answer, empty when it would not."""
    limits = limits_of(account_id)
    if not limits:
        return ""
    excess = first_excess(limits, usage_of(account_id, {}), [Demand(plan.types, plan.count) for plan in plans])
    return "" if excess is None else str(excess)
