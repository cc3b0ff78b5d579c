"""What the capacity providers offer: told by the scheduler, read by previews and explanations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.observability.models import ProviderReport


@dataclass(frozen=True)
class Offer:
    """A provider's zones and markets, most wanted first, and its free slots.

    `free` is by (zone, instance type); `otherwise` holds for types that it does not list, None where the provider does
    not say.
    """

    zones: tuple[str, ...]
    markets: tuple[str, ...]
    free: Mapping[tuple[str, str], int] = field(default_factory=dict)
    otherwise: int | None = None
    seen_at: datetime | None = None


def tell(provider: str, offer: Offer, now: datetime) -> None:
    """Store what a provider offers."""
    free: dict[str, dict[str, int]] = {}
    for (zone, instance_type), slots in offer.free.items():
        free.setdefault(zone, {})[instance_type] = slots
    says = offer.otherwise is not None
    facts = {
        "zones": list(offer.zones),
        "markets": list(offer.markets),
        "free": free if says else None,
        "otherwise": offer.otherwise,
        "seen_at": now,
    }
    ProviderReport.objects.update_or_create(provider=provider, defaults=facts)


def offer_of(provider: str) -> Offer | None:
    """What the provider last said; before it said anything, None."""
    row = ProviderReport.objects.filter(provider=provider).first()
    if row is None:
        return None
    free = {(zone, name): slots for zone, by_type in (row.free or {}).items() for name, slots in by_type.items()}
    return Offer(tuple(row.zones), tuple(row.markets), free, row.otherwise, row.seen_at)
