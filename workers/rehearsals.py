"""Telling the provider how many instances of a type may live: shortages that operators rehearse."""

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction

from controlplane.fleet.models import CapacityMark
from controlplane.observability import rehearsals
from controlplane.observability.models import CapacitySetting
from workers import offers
from workers.providers import registry
from workers.providers.base import Provider
from workers.providers.errors import ProviderError
from workers.providers.local.provider import LocalProvider
from workers.providers.simulated.provider import SimulatedProvider

log = logging.getLogger(__name__)


def apply(now: datetime) -> None:
    """Tell the provider what is wanted and was not told yet, and forget what was remembered of those types' shortages.

    Told twice, after a crash in between, it is as if told once.
    """
    name = settings.HEADRACE.provider
    wanted = rehearsals.open_settings(name)
    for row in wanted:
        failure = _tell(registry.get(name), row)
        with transaction.atomic():
            if rehearsals.told(row, now, failure) and not failure:
                CapacityMark.objects.filter(provider=name, instance_type=row.instance_type).delete()
    if wanted:
        offers.tell(now)


def _tell(provider: Provider, row: CapacitySetting) -> str:
    """Tell the provider; returns why it would not hear of it, empty when it did."""
    try:
        if isinstance(provider, SimulatedProvider):
            provider.world.set_capacity(row.instance_type, row.slots)
        elif isinstance(provider, LocalProvider):
            provider.set_capacity(row.instance_type, row.slots)
        else:
            return f"The capacity of provider {provider.name} is not Headrace's to set."
    except (ProviderError, ValueError, OSError) as error:
        log.warning("the capacity of %s cannot be set: %s", row.instance_type, error)
        return f"Provider {provider.name} could not be told: {error}"
    return ""
