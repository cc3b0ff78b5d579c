"""Sounding: what the provider and the containers of one endpoint say. Network calls, so never within a transaction."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings

from controlplane.fleet.models import Instance
from controlplane.fleet.states import LIVE_STAGES, WANTED_STAGES
from workers.providers import registry
from workers.providers.base import Health, InstanceStatus, Provider, ProviderInstance
from workers.providers.errors import ProviderError

PING_TIMEOUT_SECONDS = 2.0
"""The container contract: /ping answers within 2 s."""

PINGS_AT_ONCE = 16


@dataclass(frozen=True)
class Soundings:
    """What the provider and the containers said, by provider id; `was_asked` when the provider answered at all."""

    was_asked: bool = False
    instances: Mapping[str, ProviderInstance] = field(default_factory=dict)
    pings: Mapping[str, Health] = field(default_factory=dict)


NOTHING_SOUNDED = Soundings()


def sound(endpoint_id: UUID) -> Soundings:
    """Ask the provider and the containers of one endpoint; a provider that does not answer is not an absence."""
    rows = Instance.objects.filter(endpoint_id=endpoint_id, stage__in=LIVE_STAGES)
    stages = dict(rows.values_list("provider_id", "stage"))
    if not stages:
        return NOTHING_SOUNDED
    provider = registry.get(settings.HEADRACE.provider)
    try:
        instances = provider.describe(list(stages))
    except ProviderError:
        return NOTHING_SOUNDED
    to_ping = [
        instance
        for provider_id, instance in instances.items()
        if instance.status is InstanceStatus.RUNNING and stages[provider_id] in WANTED_STAGES
    ]
    return Soundings(True, instances, _ping_all(provider, to_ping))


def _ping_all(provider: Provider, instances: list[ProviderInstance]) -> dict[str, Health]:
    if not instances:
        return {}
    with ThreadPoolExecutor(max_workers=min(len(instances), PINGS_AT_ONCE)) as pool:
        answers = pool.map(lambda instance: provider.ping(instance, PING_TIMEOUT_SECONDS), instances)
        return {instance.provider_id: health for instance, health in zip(instances, answers, strict=True)}
