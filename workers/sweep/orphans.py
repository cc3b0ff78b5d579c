"""The orphan sweep: instances that carry this control plane's name and that no row knows are ended.

The provider is listed first and the database second, so that an instance launched in between cannot look like an
orphan. An instance younger than GRACE_SECONDS is left alone: its attempt may still be on its way into the database
of a worker that was paused.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings

from controlplane.auth.models import Installation
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS
from workers.providers import registry
from workers.providers.base import ProviderInstance
from workers.providers.errors import ErrorKind, ProviderError

GRACE_SECONDS = 60.0
"""Twice the longest claim."""

log = logging.getLogger(__name__)


def sweep(now: datetime) -> list[str]:
    """End every orphan; returns the provider ids it asked the end of."""
    owner = Installation.objects.values_list("owner", flat=True).first()
    if owner is None:
        return []
    provider = registry.get(settings.HEADRACE.provider)
    try:
        listed = provider.list_owned(owner)
    except ProviderError as error:
        log.warning("orphan sweep: the provider could not be listed: %s", error)
        return []
    return [orphan.provider_id for orphan in _orphans(listed, now) if _end(orphan)]


def _orphans(listed: list[ProviderInstance], now: datetime) -> list[ProviderInstance]:
    tokens = [instance.token for instance in listed]
    known = set(Instance.objects.filter(token__in=tokens, stage__in=LIVE_STAGES).values_list("token", flat=True))
    known |= set(LaunchAttempt.objects.filter(token__in=tokens, stage__in=OPEN_ATTEMPTS).values_list("token", flat=True))
    oldest_young = now - timedelta(seconds=GRACE_SECONDS)
    return [instance for instance in listed if instance.token not in known and instance.launched_at < oldest_young]


def _end(orphan: ProviderInstance) -> bool:
    log.warning(
        "orphan sweep: %s %s (launched %s) belongs to no endpoint: ended",
        orphan.instance_type,
        orphan.provider_id,
        orphan.launched_at.isoformat(),
    )
    try:
        registry.get(settings.HEADRACE.provider).terminate(orphan.provider_id)
    except ProviderError as error:
        if error.kind is not ErrorKind.GONE:
            log.warning("orphan sweep: %s could not be ended, tried again: %s", orphan.provider_id, error)
        return False
    return True
