"""Doing what the planner decided: each action commits its intent, calls the provider, commits the outcome.

`perform` returns whether anything changed; the loop plans again after a change and rests after none.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from controlplane.catalog.models import Tag
from controlplane.core import clock
from controlplane.endpoints.models import Endpoint, EndpointVariant
from controlplane.endpoints.states import Phase, sources_of
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage
from controlplane.routing import publish
from workers.fleet import events, launch, memory
from workers.fleet.actions import (
    Action,
    Drain,
    EnterService,
    ForgetInstance,
    GiveUp,
    Launch,
    MarkReady,
    MarkStarting,
    NotePing,
    RemoveEndpoint,
    ResolveAttempt,
    StartFailure,
    Terminate,
)
from workers.fleet.capacity import backoff_seconds
from workers.fleet.counts import recount
from workers.fleet.plan import START_FAILURES_LIMIT
from workers.loop.lease import Claim
from workers.providers import registry
from workers.providers.errors import ErrorKind, ProviderError

FAILURE_REASON_LIMIT = 1024

log = logging.getLogger(__name__)


class EndpointRemoved(Exception):
    """The endpoint's rows are deleted; there is nothing left to claim, plan or release."""


def perform(action: Action, claim: Claim) -> bool:
    """Do one action; True when facts changed. Raises ClaimLost, WishChanged or EndpointRemoved."""
    return _PERFORM[type(action)](action, claim)


def _mark_starting(action: MarkStarting, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        _move(action.instance.id, InstanceStage.STARTING, action.why, now, address=action.instance.address)
    return True


def _mark_ready(action: MarkReady, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        _move(
            action.instance.id,
            InstanceStage.READY,
            action.why,
            now,
            address=action.instance.address,
            ready_at=now,
            failed_pings=0,
        )
        _variant(action.variant.id).update(start_failures=0, start_failure_reason="")
        _facts_changed(claim, "InstanceReady", action.why, now)
    return True


def _note_ping(action: NotePing, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        Instance.objects.filter(pk=action.instance.id).update(failed_pings=action.failed_pings)
        events.record(_endpoint(claim), "PingFailed" if action.failed_pings else "PingRecovered", action.why, now)
    return True


def _drain(action: Drain, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        _move(action.instance.id, InstanceStage.DRAINING, action.why, now)
        _facts_changed(claim, "InstanceDraining", action.why, now)
    return True


def _terminate(action: Terminate, claim: Claim) -> bool:
    """Commit that the end is wanted, then ask the provider; what it answers is seen at the next look."""
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        if action.instance.stage != InstanceStage.TERMINATING:
            _move(action.instance.id, InstanceStage.TERMINATING, action.why, now)
        _note_start_failure(action.variant.id, action.start_failure, now)
        Instance.objects.filter(pk=action.instance.id).update(terminate_asked_at=now)
        _facts_changed(claim, "InstanceTerminating", action.why, now)
    row = Instance.objects.get(pk=action.instance.id)
    try:
        registry.get(row.provider).terminate(row.provider_id)
    except ProviderError as error:
        if error.kind is ErrorKind.GONE:
            return _forget(ForgetInstance(action.variant, action.instance, f"{row.instance_type} is gone"), claim)
        log.warning("instance %s: its end could not be asked for, tried again later: %s", row.id, error)
    return True


def _forget(action: ForgetInstance, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        _move(action.instance.id, InstanceStage.TERMINATED, action.why, now)
        _note_start_failure(action.variant.id, action.start_failure, now)
        row = Instance.objects.get(pk=action.instance.id)
        memory.reopen(row.provider, row.zone, row.instance_type, now)
        _facts_changed(claim, "InstanceGone", action.why, now)
    return True


def _enter_service(action: EnterService, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        endpoint = _endpoint(claim)
        kept_reason = endpoint.failure_reason if endpoint.phase == Phase.ROLLING_BACK else ""
        _enter(claim, Phase.IN_SERVICE, now, failure_reason=kept_reason)
        for variant in endpoint.variants.all():
            variant.current_weight = variant.desired_weight
            variant.provision_deadline = variant.rollback_count = None
            variant.save(update_fields=["current_weight", "provision_deadline", "rollback_count"])
        _facts_changed(claim, "InService", action.why, now)
    return True


def _give_up(action: GiveUp, claim: Claim) -> bool:
    now = clock.now()
    reason = action.why[:FAILURE_REASON_LIMIT]
    with transaction.atomic():
        claim.confirm(now)
        endpoint = _endpoint(claim)
        if endpoint.phase == Phase.CREATING:
            _enter(claim, Phase.FAILED, now, failure_reason=reason)
            _facts_changed(claim, "Failed", f"creation failed: {reason}", now)
            return True
        _enter(claim, Phase.ROLLING_BACK, now, failure_reason=reason)
        for variant in endpoint.variants.all():
            if variant.rollback_count is not None:
                variant.desired_count = variant.rollback_count
            variant.desired_weight = variant.current_weight
            variant.provision_deadline = variant.rollback_count = None
            variant.save(update_fields=["desired_count", "desired_weight", "provision_deadline", "rollback_count"])
        _facts_changed(claim, "RollingBack", f"the change failed and is undone: {reason}", now)
    return True


def _remove_endpoint(action: RemoveEndpoint, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        endpoint = _endpoint(claim)
        events.record(endpoint, "EndpointDeleted", f"endpoint {endpoint.name} is deleted: {action.why}", now)
        publish.bury(endpoint, now)
        Tag.objects.filter(resource_id=endpoint.id).delete()
        endpoint.delete()
    raise EndpointRemoved(str(claim.endpoint_id))


def _note_start_failure(variant_id: int, failure: StartFailure | None, now: datetime) -> None:
    """Count an instance that never came up against its variant, and put the next launch off."""
    if failure is None:
        return
    variant = EndpointVariant.objects.get(pk=variant_id)
    variant.start_failures = START_FAILURES_LIMIT if failure.is_final else variant.start_failures + 1
    variant.start_failure_reason = failure.reason
    variant.launch_not_before = now + timedelta(seconds=backoff_seconds(variant.start_failures, 0.0, first=2.0))
    variant.save(update_fields=["start_failures", "start_failure_reason", "launch_not_before"])


def _move(instance_id: str, stage: InstanceStage, why: str, now: datetime, **facts: object) -> None:
    Instance.objects.filter(pk=instance_id).update(stage=stage, stage_since=now, reason=why, **facts)


def _enter(claim: Claim, phase: Phase, now: datetime, **facts: object) -> None:
    """Move the endpoint to `phase`, if the graph in `endpoints.states` has that move."""
    moved = Endpoint.objects.filter(pk=claim.endpoint_id, phase__in=sources_of(phase)).update(
        phase=phase, modified_at=now, **facts
    )
    if not moved:
        raise AssertionError(f"endpoint {claim.endpoint_id} cannot move to {phase}")


def _facts_changed(claim: Claim, reason: str, why: str, now: datetime) -> None:
    """Counts, routing table and story of the endpoint, in the transaction that changed its facts."""
    endpoint = _endpoint(claim)
    recount(endpoint)
    publish.publish(endpoint, now)
    events.record(endpoint, reason, why, now)


def _endpoint(claim: Claim) -> Endpoint:
    return Endpoint.objects.get(pk=claim.endpoint_id)


def _variant(variant_id: int):  # type: ignore[no-untyped-def]
    return EndpointVariant.objects.filter(pk=variant_id)


_PERFORM: dict[type, Callable[[Any, Claim], bool]] = {
    Launch: launch.launch,
    ResolveAttempt: launch.resolve,
    MarkStarting: _mark_starting,
    MarkReady: _mark_ready,
    NotePing: _note_ping,
    Drain: _drain,
    Terminate: _terminate,
    ForgetInstance: _forget,
    EnterService: _enter_service,
    GiveUp: _give_up,
    RemoveEndpoint: _remove_endpoint,
}
