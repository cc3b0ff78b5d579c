"""Finding suspects: what the provider has, less what the database knows. Reads only.

The provider is listed first and the database second, so that an instance launched in between cannot look like an
orphan; and whatever is left is asked for once more, since an instance that ended in between has lost its row by right.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from controlplane.auth.models import Installation
from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS, WANTED_STAGES
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OrphanState
from workers.providers import registry
from workers.providers.base import InstanceStatus, ProviderInstance
from workers.providers.errors import ProviderError
from workers.sweep.plan import Suspect

GRACE_SECONDS = 60.0
"""Twice the longest claim: a younger instance's attempt may still be on its way into the database of a paused worker."""

MEMORY_SECONDS = 60.0
"""A launch and the facts around it are committed this close together, clocks that differ included."""

ADOPTING_PHASES = ("Creating", "InService", "Updating")
"""Phases of an endpoint that wants instances."""

_UP = (InstanceStatus.PENDING, InstanceStatus.RUNNING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sighted:
    """A suspect with the rows that tell of it: the provider's, the launch attempt's, and that of an earlier sweep."""

    suspect: Suspect
    instance: ProviderInstance
    attempt: LaunchAttempt | None
    orphan: Orphan | None


@dataclass(frozen=True)
class Look:
    """One look at a provider: what it listed (by id and launch time), and the suspects among it."""

    provider: str
    listed: frozenset[tuple[str, datetime]]
    sighted: tuple[Sighted, ...]


def look(now: datetime) -> Look | None:
    """Look for orphans; None when that is not possible now: no installation yet, or the provider does not answer."""
    owner = Installation.objects.values_list("owner", flat=True).first()
    if owner is None:
        return None
    provider = registry.get(settings.HEADRACE.provider)
    try:
        listed = provider.list_owned(owner)
        unknown = _unknown(listed, now)
        # Ids may be used again, so that only the launch time tells that it is still the same instance.
        still = {(each.provider_id, each.launched_at): each for each in _describe(unknown)}
    except ProviderError as error:
        log.warning("orphan sweep: the provider could not be asked: %s", error)
        return None
    left = [still[identity] for each in unknown if (identity := (each.provider_id, each.launched_at)) in still]
    sighted = _sighted(provider.name, left)
    return Look(provider.name, frozenset((each.provider_id, each.launched_at) for each in listed), tuple(sighted))


def _describe(unknown: Sequence[ProviderInstance]) -> Iterable[ProviderInstance]:
    if not unknown:
        return ()
    provider = registry.get(settings.HEADRACE.provider)
    return provider.describe([each.provider_id for each in unknown]).values()


def _unknown(listed: Sequence[ProviderInstance], now: datetime) -> list[ProviderInstance]:
    """The listed instances that are old enough and that no live row knows."""
    tokens = [instance.token for instance in listed]
    grace = timedelta(seconds=GRACE_SECONDS)
    rows = Instance.objects.filter(token__in=tokens)
    known = set(rows.filter(stage__in=LIVE_STAGES).values_list("token", flat=True))
    known |= set(rows.filter(stage_since__gt=now - grace).values_list("token", flat=True))
    known |= set(LaunchAttempt.objects.filter(token__in=tokens, stage__in=OPEN_ATTEMPTS).values_list("token", flat=True))
    return [each for each in listed if each.token not in known and each.launched_at < now - grace]


def _sighted(provider: str, instances: Sequence[ProviderInstance]) -> Iterable[Sighted]:
    tokens = [each.token for each in instances]
    attempts = {
        row.token: row
        for row in LaunchAttempt.objects.filter(token__in=tokens).select_related("endpoint", "variant", "pool")
    }
    ended = set(Instance.objects.filter(token__in=tokens).values_list("token", flat=True))
    rows = Orphan.objects.filter(provider=provider, provider_id__in=[each.provider_id for each in instances])
    orphans = {(row.provider_id, row.launched_at): row for row in rows}
    for each in instances:
        attempt, orphan = attempts.get(each.token), orphans.get((each.provider_id, each.launched_at))
        if orphan is None and each.status is InstanceStatus.STOPPING:
            continue  # somebody has just asked for its end
        yield Sighted(_suspect(each, attempt, orphan, has_row=each.token in ended), each, attempt, orphan)


def _suspect(instance: ProviderInstance, attempt: LaunchAttempt | None, orphan: Orphan | None, *, has_row: bool) -> Suspect:
    return Suspect(
        provider_id=instance.provider_id,
        launched_at=instance.launched_at,
        has_origin=attempt is not None,
        # An instance that had a row was ended on purpose, or had vanished and was replaced.
        is_lacking=attempt is not None and not has_row and is_lacking(attempt.variant),
        is_up=instance.status in _UP,
        is_remembered=attempt is not None or remembers(instance.launched_at),
        is_asked=orphan is not None and orphan.state == OrphanState.ENDING,
    )


def is_lacking(variant: EndpointVariant) -> bool:
    """Whether the variant's endpoint wants instances and has not even asked for as many as it wants."""
    live = Instance.objects.filter(variant_id=variant.pk, stage__in=WANTED_STAGES).count()
    asked = LaunchAttempt.objects.filter(variant_id=variant.pk, stage__in=OPEN_ATTEMPTS).count()
    return variant.endpoint.phase in ADOPTING_PHASES and live + asked < variant.desired_count


def remembers(launched_at: datetime) -> bool:
    """Whether the database knows of anything that happened around the time of a launch."""
    margin = timedelta(seconds=MEMORY_SECONDS)
    around = (launched_at - margin, launched_at + margin)
    return Event.objects.filter(at__range=around).exists() or LaunchAttempt.objects.filter(called_at__range=around).exists()
