"""What comes of a launch call: committed under the claim, remembered for everybody, and told in a sentence."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import AttemptStage, InstanceStage
from workers.fleet import events, memory, moves
from workers.fleet.capacity import backoff_seconds
from workers.fleet.plan import START_FAILURES_LIMIT
from workers.loop.lease import Claim
from workers.providers.base import ProviderInstance
from workers.providers.errors import ErrorKind, ProviderError

MISCONFIGURED_PAUSE_SECONDS = 60.0
"""In steady state a request that can never work is tried again this late: somebody has to mend it first."""

LOST = (ErrorKind.AMBIGUOUS, ErrorKind.GONE)
"""The call may have launched."""


def record_launch(attempt: LaunchAttempt, claim: Claim, instance: ProviderInstance) -> None:
    """The attempt has its instance, and its pool is open to everybody. Raises ClaimLost."""
    now = clock.now()
    with transaction.atomic():
        claim.renew(now)
        close(attempt, AttemptStage.SUCCEEDED, "")
        Instance.objects.create(
            id=new_uuid(),
            endpoint_id=attempt.endpoint_id,
            variant_id=attempt.variant_id,
            pool_id=attempt.pool_id,
            provider=attempt.provider,
            provider_id=instance.provider_id,
            token=attempt.token,
            instance_type=attempt.instance_type,
            zone=attempt.zone,
            market=attempt.market,
            hourly_price=attempt.hourly_price,
            replaces=attempt.replaces,
            launched_at=instance.launched_at,
            stage=InstanceStage.PENDING,
            stage_since=now,
        )
        memory.forget_refusal(attempt)
        variant_of(attempt).update(refusals=0, launch_not_before=None)
        sentence = f"{attempt.instance_type} launched in {attempt.zone} for variant {attempt.variant.name}"
        events.record(attempt.endpoint, "InstanceLaunched", sentence, now, {"provider_id": instance.provider_id})


def record_failure(attempt: LaunchAttempt, claim: Claim, error: ProviderError, is_out_of_pools: Callable[[], bool]) -> None:
    """The attempt was refused, or nobody knows what it did. Whether pools are left is asked once that is remembered. Raises
    ClaimLost."""
    now = clock.now()
    stage = AttemptStage.AMBIGUOUS if error.kind in LOST else AttemptStage.REFUSED
    with transaction.atomic():
        claim.renew(now)
        close(attempt, stage, error.message, error.kind)
        reason, sentence = _AFTER[error.kind](attempt, error, now, is_out_of_pools)
        detail = {"pool": attempt.instance_type, "zone": attempt.zone, "kind": error.kind.value}
        events.record(attempt.endpoint, reason, sentence, now, detail)


def _after_refusal(
    attempt: LaunchAttempt, error: ProviderError, now: datetime, is_out_of_pools: Callable[[], bool]
) -> tuple[str, str]:
    """Capacity, quota, or what nobody knows: remember it for everybody; with no pool left, walk the list again later."""
    until = memory.remember_refusal(attempt, error, now)
    sentence = f"{attempt.instance_type} refused in {attempt.zone}: {error.message} Skipped until {until:%H:%M:%S}."
    if attempt.replaces:
        return "MoveRefused", f"{sentence} {moves.hold_down(attempt.variant, now)}"
    if is_out_of_pools():
        again = pause(attempt, attempt.variant.refusals + 1, now)
        sentence = f"{sentence} No pool is left; the list is walked again at {again:%H:%M:%S}."
    return "PoolRefused", sentence


def _after_throttle(attempt: LaunchAttempt, error: ProviderError, now: datetime, _: Callable[[], bool]) -> tuple[str, str]:
    """A throttle says nothing about the pool: the same one again after a back-off, no mark."""
    memory.release_probe(attempt)
    again = pause(attempt, attempt.variant.refusals + 1, now)
    return "LaunchThrottled", f"The provider is throttling: {error.message} Asked again at {again:%H:%M:%S}."


def _after_misconfiguration(
    attempt: LaunchAttempt, error: ProviderError, now: datetime, _: Callable[[], bool]
) -> tuple[str, str]:
    """The request can never work: no walk over the other pools, which would hide the cause."""
    memory.release_probe(attempt)
    if attempt.replaces:
        return "MoveRefused", f"{attempt.instance_type} cannot run this model: {moves.hold_down(attempt.variant, now)}"
    reason = (
        f"Please make sure all images included in the model for the production variant {attempt.variant.name} exist, "
        "and that the execution role used to create the model has permissions to access them. " + error.message
    )
    again = now + timedelta(seconds=MISCONFIGURED_PAUSE_SECONDS)
    variant_of(attempt).update(start_failures=START_FAILURES_LIMIT, start_failure_reason=reason, launch_not_before=again)
    return "LaunchMisconfigured", f"{attempt.instance_type} cannot run this model: {error.message}"


def _after_lost_reply(
    attempt: LaunchAttempt, error: ProviderError, now: datetime, _: Callable[[], bool]
) -> tuple[str, str]:
    del now
    return "LaunchOutcomeUnknown", f"The launch of {attempt.instance_type} may have happened: {error.message}"


_AFTER = {
    ErrorKind.CAPACITY: _after_refusal,
    ErrorKind.QUOTA: _after_refusal,
    ErrorKind.UNKNOWN: _after_refusal,
    ErrorKind.THROTTLED: _after_throttle,
    ErrorKind.MISCONFIGURED: _after_misconfiguration,
    ErrorKind.AMBIGUOUS: _after_lost_reply,
    ErrorKind.GONE: _after_lost_reply,
}


def pause(attempt: LaunchAttempt, streak: int, now: datetime) -> datetime:
    """Put the variant's next launch off after `streak` failures in a row; returns until when."""
    again = now + timedelta(seconds=backoff_seconds(streak, random.random()))
    variant_of(attempt).update(refusals=streak, launch_not_before=again)
    return again


def close(attempt: LaunchAttempt, stage: AttemptStage, message: str, kind: str = "") -> None:
    """The attempt has come to this stage, with the provider's words and the kind of its error."""
    attempt.stage, attempt.message, attempt.error_kind, attempt.ended_at = stage, message, kind, clock.now()
    attempt.save(update_fields=["stage", "message", "error_kind", "ended_at"])


def variant_of(attempt: LaunchAttempt) -> QuerySet[EndpointVariant]:
    """The row of its variant, to be updated in place."""
    return EndpointVariant.objects.filter(pk=attempt.variant_id)
