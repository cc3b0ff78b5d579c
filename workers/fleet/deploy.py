"""Doing what the deployment planner decided. Every move is one transaction: stage, counts, shares, table and story."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from controlplane.core import clock
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant
from controlplane.endpoints.selectors import standing_variants
from controlplane.endpoints.states import DeploymentStage, Phase
from workers.fleet.actions import Advance, EndRollback, FailRollback, FinishDeployment, RollBack
from workers.fleet.facts import FAILURE_REASON_LIMIT, endpoint_of, enter, facts_changed
from workers.loop.lease import Claim


def _advance(action: Advance, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        row = _deployment(claim)
        if row.stage != action.stage:
            row.stage, row.stage_since = action.stage, now
        row.step, row.why = action.step, f"{action.why[:1].upper()}{action.why[1:]}."
        row.share = row.share if action.share is None else action.share
        row.save(update_fields=["stage", "stage_since", "step", "why", "share"])
        _set_fleets(row, action.counts, action.searches, now)
        if action.stage == DeploymentStage.ACTIVATING:
            # The search is over. From here on the new fleet is healed like any other.
            _new_variants(row).update(provision_deadline=None)
        facts_changed(claim, "DeploymentAdvanced", action.why, now)
    return True


def _set_fleets(row: Deployment, counts: Mapping[int, int], searches: tuple[int, ...], now: datetime) -> None:
    """Write the wanted counts, start the searches, and give each variant its share of the calls."""
    for variant in standing_variants(row.endpoint):
        variant.desired_count = counts.get(variant.id, variant.desired_count)
        if variant.id in searches:
            variant.provision_deadline = now + timedelta(seconds=variant.provision_timeout_seconds)
            variant.refusals = variant.start_failures = 0
            variant.start_failure_reason = ""
            variant.launch_not_before = variant.short_since = None
        variant.traffic_share = _share(row, variant)
        variant.save()


def _share(row: Deployment, variant: EndpointVariant) -> float:
    """The new revision's share, what is left for the one in service, and for one that an earlier roll-back left behind
    no more than it had."""
    if variant.revision == row.to_revision:
        return row.share
    left = 1 - row.share
    return left if variant.revision == row.endpoint.revision else min(variant.traffic_share, left)


def _roll_back(action: RollBack, claim: Claim) -> bool:
    now = clock.now()
    reason = action.reason[:FAILURE_REASON_LIMIT]
    with transaction.atomic():
        claim.confirm(now)
        row = _deployment(claim)
        row.stage, row.stage_since, row.step, row.rolled_back_from = DeploymentStage.ROLLING_BACK, now, 1, action.step
        row.share = row.share if action.share is None else action.share
        row.failure_reason, row.why = reason, f"{action.why[:1].upper()}{action.why[1:]}"
        row.save()
        standing_variants(row.endpoint).update(provision_deadline=None)
        _set_fleets(row, {}, (), now)
        Endpoint.objects.filter(pk=claim.endpoint_id).update(modified_at=now)
        facts_changed(claim, "DeploymentFailed", action.why, now)
    return True


def _finish(action: FinishDeployment, claim: Claim) -> bool:
    """The new revision becomes the endpoint's; what is left of the old one ends in its own time."""

    def facts(row: Deployment) -> dict[str, object]:
        return {
            "failure_reason": "",
            "revision": row.to_revision,
            "config_name": row.config_name,
            "async_inference": row.async_inference,
            "shows_pools": row.shows_pools,
        }

    return _end(claim, Phase.IN_SERVICE, facts, "DeploymentFinished", action.why)


def _end_rollback(action: EndRollback, claim: Claim) -> bool:
    """The old revision is the endpoint's as before, and what undid the deployment is told."""
    return _end(claim, Phase.IN_SERVICE, lambda row: {"failure_reason": row.failure_reason}, "DeploymentUndone", action.why)


def _fail_rollback(action: FailRollback, claim: Claim) -> bool:
    """Neither revision can be had whole: what there is of both goes on serving, each its share."""
    reason = action.why[:FAILURE_REASON_LIMIT]
    return _end(claim, Phase.UPDATE_ROLLBACK_FAILED, lambda row: {"failure_reason": reason}, "RollbackFailed", reason)


def _end(claim: Claim, phase: Phase, facts: Callable[[Deployment], dict[str, object]], reason: str, why: str) -> bool:
    """The deployment is over: the endpoint enters `phase` with these facts, and the deployment's row goes."""
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        row = _deployment(claim)
        enter(claim, phase, now, **facts(row))
        _close(row)
        served = f"configuration {endpoint_of(claim).config_name} is in service: "
        facts_changed(claim, reason, f"{served if phase == Phase.IN_SERVICE else ''}{why}", now)
    return True


def _close(row: Deployment) -> None:
    standing_variants(row.endpoint).update(provision_deadline=None, rollback_count=None, full_count=F("desired_count"))
    row.delete()


def _deployment(claim: Claim) -> Deployment:
    return Deployment.objects.select_related("endpoint").get(endpoint=endpoint_of(claim))


def _new_variants(row: Deployment) -> "QuerySet[EndpointVariant]":
    return EndpointVariant.objects.filter(endpoint=row.endpoint, revision=row.to_revision)


PERFORM: dict[type, Callable[[Any, Claim], bool]] = {
    Advance: _advance,
    RollBack: _roll_back,
    FinishDeployment: _finish,
    EndRollback: _end_rollback,
    FailRollback: _fail_rollback,
}
