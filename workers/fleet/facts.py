"""Facts about an endpoint and what has to follow from them in the same transaction."""

from datetime import datetime

from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase, sources_of
from controlplane.routing import publish
from workers.fleet import events
from workers.fleet.counts import recount
from workers.loop.lease import Claim

FAILURE_REASON_LIMIT = 1024


def endpoint_of(claim: Claim) -> Endpoint:
    """The claimed endpoint as it is stored now."""
    return Endpoint.objects.get(pk=claim.endpoint_id)


def enter(claim: Claim, phase: Phase, now: datetime, **facts: object) -> None:
    """Move the endpoint to `phase`, if the graph in `endpoints.states` has that move."""
    moved = Endpoint.objects.filter(pk=claim.endpoint_id, phase__in=sources_of(phase)).update(
        phase=phase, modified_at=now, **facts
    )
    if not moved:
        raise AssertionError(f"endpoint {claim.endpoint_id} cannot move to {phase}")


def facts_changed(claim: Claim, reason: str, why: str, now: datetime) -> None:
    """Counts, routing table and story of the endpoint, in the transaction that changed its facts."""
    endpoint = endpoint_of(claim)
    recount(endpoint)
    publish.publish(endpoint, now)
    events.record(endpoint, reason, why, now)
