"""Telling the control plane what the provider offers: it knows no providers, and its previews read what was told here."""

import logging
from datetime import datetime

from django.conf import settings

from controlplane.observability import offers
from workers.providers import registry
from workers.providers.base import Provider
from workers.providers.errors import ProviderError
from workers.providers.slots import CountsSlots

log = logging.getLogger(__name__)


def tell(now: datetime) -> None:
    """Store the zones, markets and free slots of the provider in use; one that does not answer is told of next time."""
    provider = registry.get(settings.HEADRACE.provider)
    try:
        offer = _offer(provider)
    except (ProviderError, ValueError) as error:
        log.warning("what provider %s offers is not known now: %s", provider.name, error)
        return
    offers.tell(provider.name, offer, now)


def _offer(provider: Provider) -> offers.Offer:
    if not isinstance(provider, CountsSlots):
        return offers.Offer(provider.zones, provider.markets)
    slots = provider.free_slots()
    return offers.Offer(provider.zones, provider.markets, slots.free, slots.otherwise)
