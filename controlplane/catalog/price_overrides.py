"""Prices that an operator sets while Headrace runs. They hold for all accounts, and for launches from then on."""

import math
import uuid
from datetime import datetime

from django.db import transaction

from controlplane.catalog.models import PriceOverride
from controlplane.core import actor
from controlplane.core.errors import ResourceNotFound, ValidationException
from controlplane.core.offerings import MARKETS
from controlplane.observability import events

MOST_DOLLARS = 10_000.0
"""A day of the dearest machine costs less; a price above this is a slip."""


def set_price(instance_type: str, market: str, price: float, *, account_id: str, now: datetime) -> PriceOverride:
    """Let an hour of this type in this market cost so many US dollars; raises ValidationException for nonsense."""
    if market not in MARKETS:
        raise ValidationException(f"Market must be one of {', '.join(MARKETS)}.")
    if not math.isfinite(price) or not 0 <= price <= MOST_DOLLARS:
        raise ValidationException(f"HourlyPrice must be 0 to {MOST_DOLLARS:g} US dollars.")
    known = {"hourly_price": price, "set_at": now, "set_by": actor.current()}
    with transaction.atomic():
        row, _ = PriceOverride.objects.update_or_create(instance_type=instance_type, market=market, defaults=known)
        sentence = f"An hour of {instance_type} ({market}) is taken to cost {price:g} US dollars from now on."
        _tell(account_id, row, "PriceSet", sentence, now)
    return row


def drop_price(instance_type: str, market: str, *, account_id: str, now: datetime) -> None:
    """Let the settings and the list hold again; raises ResourceNotFound where nothing was set."""
    with transaction.atomic():
        row = PriceOverride.objects.select_for_update().filter(instance_type=instance_type, market=market).first()
        if row is None:
            raise ResourceNotFound(f"No price is set for {instance_type} ({market}).")
        sentence = f"The price of {instance_type} ({market}) is that of the settings or the list again."
        _tell(account_id, row, "PriceDropped", sentence, now)
        row.delete()


def _tell(account_id: str, row: PriceOverride, reason: str, sentence: str, now: datetime) -> None:
    subject_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{row.instance_type}@{row.market}")
    subject = events.Subject(account_id, "price", subject_id, row.instance_type[:63])
    events.record(subject, reason, sentence, now=now, detail={"hourly_price": row.hourly_price, "market": row.market})
