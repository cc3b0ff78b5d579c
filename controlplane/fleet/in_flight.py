"""Calls under way at each instance, as people are shown them: what the live gateways last said, and the queue's runs."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from controlplane.fleet.models import GatewayHeartbeat, Instance
from controlplane.invocations.selectors import running_by_instance

GATEWAY_LIVE_SECONDS = 10.0
"""A gateway that was not heard of for so long (it reports every second) is taken for dead."""


def calls_at(instances: Iterable[Instance], now: datetime) -> dict[UUID, int]:
    """Calls under way by instance; those without any are left out. Two queries, however many instances."""
    ids = [row.id for row in instances]
    found = running_by_instance(ids)
    live = GatewayHeartbeat.objects.filter(seen_at__gte=now - timedelta(seconds=GATEWAY_LIVE_SECONDS))
    for in_flight, draining in live.values_list("in_flight", "draining"):
        # A gateway lists a draining instance apart; where it has calls it may be in both.
        for key in ids:
            count = max(in_flight.get(str(key), 0), draining.get(str(key), 0))
            if count:
                found[key] = found.get(key, 0) + count
    return found
