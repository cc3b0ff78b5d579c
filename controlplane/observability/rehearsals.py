"""Rehearsed shortages: how many instances of a type a provider is told to let live. Wanted here, told by the workers."""

import uuid
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from controlplane.core import actor
from controlplane.core.errors import ValidationException
from controlplane.observability import events
from controlplane.observability.models import CapacitySetting

REHEARSING = ("simulated", "local")
"""The providers whose capacity is an operator's to set; a cloud's is not."""

MOST_SLOTS = 1_000_000


def listed(provider: str) -> "QuerySet[CapacitySetting]":
    """What the provider's capacity was set to, by instance type."""
    return CapacitySetting.objects.filter(provider=provider)


def want(provider: str, instance_type: str, slots: int, *, account_id: str, now: datetime) -> CapacitySetting:
    """Let so many instances of a type live at once from now on (0: none); those that run are left alone.

    The last one wins. Raises ValidationException for a provider whose capacity is not Headrace's to set.
    """
    if provider not in REHEARSING:
        raise ValidationException(f"The capacity of provider {provider} is not Headrace's to set.")
    if not 0 <= slots <= MOST_SLOTS:
        raise ValidationException(f"Slots must be 0 to {MOST_SLOTS}.")
    wanted = {
        "slots": slots,
        "account_id": account_id,
        "set_at": now,
        "set_by": actor.current(),
        "applied_at": None,
        "failure": "",
    }
    with transaction.atomic():
        row, _ = CapacitySetting.objects.update_or_create(provider=provider, instance_type=instance_type, defaults=wanted)
        sentence = f"The capacity of {instance_type} at provider {provider} is to be {slots} from now on."
        events.record(_subject(row), "CapacitySet", sentence, now=now, detail={"slots": slots})
    return row


def open_settings(provider: str) -> list[CapacitySetting]:
    """Those that the provider has not been told yet."""
    return list(listed(provider).filter(applied_at=None))


def told(row: CapacitySetting, now: datetime, failure: str = "") -> bool:
    """The provider was told, or would not hear of it; False when something else is wanted by now."""
    same = CapacitySetting.objects.filter(pk=row.pk, set_at=row.set_at, slots=row.slots, applied_at=None)
    return bool(same.update(applied_at=now, failure=failure))


def _subject(row: CapacitySetting) -> events.Subject:
    subject_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{row.provider}/{row.instance_type}")
    return events.Subject(row.account_id, "capacity", subject_id, row.instance_type[:63])
