"""Doing what the planner decided: each action commits its intent, calls the provider, commits the outcome.

`perform` returns whether anything changed; the loop plans again after a change and rests after none.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from controlplane.catalog.models import Tag
from controlplane.core import clock
from controlplane.core.offerings import SPOT
from controlplane.endpoints.models import EndpointVariant
from controlplane.endpoints.selectors import standing_variants
from controlplane.endpoints.states import Phase
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage
from controlplane.routing import publish
from workers.fleet import deploy, events, launch, memory, moves
from workers.fleet.actions import (
    Action,
    Drain,
    EndMove,
    EnterService,
    ForgetInstance,
    GiveUp,
    Launch,
    MarkReady,
    MarkStarting,
    NoteEnd,
    NotePing,
    NoteShort,
    RemoveEndpoint,
    RemoveVariant,
    ResolveAttempt,
    StartFailure,
    Terminate,
)
from workers.fleet.capacity import backoff_seconds
from workers.fleet.facts import FAILURE_REASON_LIMIT, endpoint_of, enter, facts_changed
from workers.fleet.plan import START_FAILURES_LIMIT
from workers.loop.lease import Claim
from workers.providers import registry
from workers.providers.errors import ErrorKind, ProviderError

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
        facts_changed(claim, "InstanceReady", action.why, now)
    return True


def _note_ping(action: NotePing, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        Instance.objects.filter(pk=action.instance.id).update(failed_pings=action.failed_pings)
        events.record(endpoint_of(claim), "PingFailed" if action.failed_pings else "PingRecovered", action.why, now)
    return True


def _note_end(action: NoteEnd, claim: Claim) -> bool:
    """Remember that the instance will be taken away; on the spot market its offering has none to spare then."""
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        Instance.objects.filter(pk=action.instance.id).update(ends_at=action.ends_at)
        row = Instance.objects.select_related("endpoint").get(pk=action.instance.id)
        if row.market == SPOT:
            memory.note_interruption(row, action.why, now)
        events.record(row.endpoint, "InterruptionNotice", action.why, now)
    return True


def _note_short(action: NoteShort, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        _variant(action.variant.id).update(short_since=now)
        events.record(endpoint_of(claim), "PatienceStarted", action.why, now)
    return True


def _end_move(action: EndMove, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        Instance.objects.filter(variant_id=action.variant.id).update(replaces=None)
        sentence = moves.hold_down(_variant(action.variant.id).get(), now)
        events.record(endpoint_of(claim), "MoveEnded", f"{action.why}. {sentence}", now)
    return True


def _drain(action: Drain, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        _move(action.instance.id, InstanceStage.DRAINING, action.why, now)
        facts_changed(claim, "InstanceDraining", action.why, now)
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
        facts_changed(claim, "InstanceTerminating", action.why, now)
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
        memory.reopen(row, now)
        facts_changed(claim, "InstanceGone", action.why, now)
    return True


def _enter_service(action: EnterService, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        endpoint = endpoint_of(claim)
        kept_reason = endpoint.failure_reason if endpoint.phase == Phase.ROLLING_BACK else ""
        enter(claim, Phase.IN_SERVICE, now, failure_reason=kept_reason)
        for variant in standing_variants(endpoint):
            variant.current_weight = variant.desired_weight
            variant.full_count = variant.desired_count
            variant.provision_deadline = variant.rollback_count = None
            variant.save(update_fields=["current_weight", "full_count", "provision_deadline", "rollback_count"])
        facts_changed(claim, "InService", action.why, now)
    return True


def _give_up(action: GiveUp, claim: Claim) -> bool:
    now = clock.now()
    reason = action.why[:FAILURE_REASON_LIMIT]
    with transaction.atomic():
        claim.confirm(now)
        endpoint = endpoint_of(claim)
        if endpoint.phase == Phase.CREATING:
            enter(claim, Phase.FAILED, now, failure_reason=reason)
            facts_changed(claim, "Failed", f"creation failed: {reason}", now)
            return True
        enter(claim, Phase.ROLLING_BACK, now, failure_reason=reason)
        for variant in standing_variants(endpoint):
            if variant.rollback_count is not None:
                variant.desired_count = variant.rollback_count
            variant.desired_weight = variant.current_weight
            variant.provision_deadline = variant.rollback_count = None
            variant.save(update_fields=["desired_count", "desired_weight", "provision_deadline", "rollback_count"])
        facts_changed(claim, "RollingBack", f"the change failed and is undone: {reason}", now)
    return True


def _retire_variant(action: RemoveVariant, claim: Claim) -> bool:
    """Keep the row, for what its instances cost, and look at it no more."""
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        _variant(action.variant.id).update(retired_at=now)
        facts_changed(claim, "VariantRetired", action.why, now)
    return True


def _remove_endpoint(action: RemoveEndpoint, claim: Claim) -> bool:
    now = clock.now()
    with transaction.atomic():
        claim.confirm(now)
        endpoint = endpoint_of(claim)
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


def _variant(variant_id: int) -> "QuerySet[EndpointVariant]":
    return EndpointVariant.objects.filter(pk=variant_id)


_PERFORM: dict[type, Callable[[Any, Claim], bool]] = {
    Launch: launch.launch,
    ResolveAttempt: launch.resolve,
    MarkStarting: _mark_starting,
    MarkReady: _mark_ready,
    NotePing: _note_ping,
    NoteEnd: _note_end,
    NoteShort: _note_short,
    EndMove: _end_move,
    Drain: _drain,
    Terminate: _terminate,
    ForgetInstance: _forget,
    EnterService: _enter_service,
    GiveUp: _give_up,
    RemoveVariant: _retire_variant,
    RemoveEndpoint: _remove_endpoint,
    **deploy.PERFORM,
}
