"""Reading what the capacity board shows. A fixed number of queries."""

from collections import defaultdict

from django.conf import settings
from django.db.models import Count

from controlplane.catalog.models import Quota as QuotaRow
from controlplane.catalog.prices import price_in, price_table
from controlplane.console.capacity_board import Known, Mark, Quota, Setting
from controlplane.core.offerings import ON_DEMAND
from controlplane.endpoints.models import VariantPool
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.fleet.states import LIVE_STAGES
from controlplane.observability import rehearsals
from controlplane.observability.offers import Offer, offer_of

MARK_COLUMNS = (
    *("id", "instance_type", "zone", "market", "kind", "message", "marked_at", "until", "streak", "seen_by"),
    "probe_expires_at",
)


def known() -> Known:
    """What is known of the provider that this installation uses, in its region."""
    provider = settings.HEADRACE.provider
    offer = offer_of(provider) or Offer((), ())
    live = Instance.objects.filter(provider=provider, stage__in=LIVE_STAGES).order_by()
    in_use = live.values_list("instance_type", "zone").annotate(Count("id"))
    marks = CapacityMark.objects.filter(provider=provider, region=settings.HEADRACE.region).order_by(
        "instance_type", "zone"
    )
    pools = VariantPool.objects.filter(variant__retired_at=None).order_by()
    wanted_by = dict(pools.values_list("instance_type").annotate(Count("variant", distinct=True)))
    in_zones = {(name, zone): count for name, zone, count in in_use}
    found = tuple(Mark(*row) for row in marks.values_list(*MARK_COLUMNS))
    rehearsed = {
        row.instance_type: Setting(row.slots, row.set_by, row.set_at, row.applied_at, row.failure)
        for row in rehearsals.listed(provider)
    }
    prices = price_table()
    names = {*wanted_by, *(name for name, _ in in_zones), *(mark.instance_type for mark in found), *rehearsed}
    return Known(
        zones=offer.zones,
        free={(name, zone): slots for (zone, name), slots in offer.free.items()},
        otherwise=offer.otherwise,
        in_use=in_zones,
        marks=found,
        wanted_by=wanted_by,
        prices={name: price_in(prices, name, ON_DEMAND) for name in names},
        quotas=_quotas(),
        settings=rehearsed,
    )


def _quotas() -> dict[str, tuple[Quota, ...]]:
    found: dict[str, list[Quota]] = defaultdict(list)
    for name, limit in settings.HEADRACE.quotas.items():
        found[name].append(Quota("", limit))
    for account_id, name, limit in QuotaRow.objects.order_by("account_id").values_list("account_id", "name", "limit"):
        found[name].append(Quota(account_id, limit))
    return {name: tuple(quotas) for name, quotas in found.items()}
