"""The pure rules of looking after one instance: what its observations call for now.

Every stage has a clock and a reason of its own, so that a slow boot, a slow model and a sick one are told apart.
"""

from datetime import datetime, timedelta

from workers.fleet.actions import (
    Action,
    ForgetInstance,
    MarkReady,
    MarkStarting,
    NoteEnd,
    NotePing,
    StartFailure,
    Terminate,
)
from workers.fleet.view import Instance, Sighting, Stage, Variant

BOOT_TIMEOUT_SECONDS = 900.0
"""From the launch to an address, model download not counted; Karpenter gives a node as long to register."""

FAILED_PINGS_LIMIT = 3
"""So many /ping failures in a row and a serving instance is replaced."""

DRAIN_TIMEOUT_SECONDS = 3660.0
"""The longest asynchronous invocation (3,600 s) and a minute: nothing that is still running may be cut short."""

TERMINATE_AGAIN_SECONDS = 30.0
TERMINATE_AGAIN_LAST_SECONDS = 300.0
"""A terminate without effect is asked for again, without end: an instance is gone when its provider says so. At first
every 30 s, later after a tenth of the time it has taken so far, up to 5 min: for a provider that will not say whether the
instance still lives, as late as that at once."""


def action_for(variant: Variant, instance: Instance, now: datetime) -> Action | None:
    """The one thing to do about `instance` now, if any."""
    if instance.sighting is Sighting.GONE:
        return _forget(variant, instance)
    if instance.stage is Stage.TERMINATING:
        return _terminate_again(variant, instance, now)
    if instance.sighting is Sighting.EXITED:
        return _end_exited(variant, instance)
    if instance.notice_ends_at is not None and instance.ends_at is None:
        why = f"{_name(instance)} will be taken away at {instance.notice_ends_at:%H:%M:%S}: {instance.notice}"
        return NoteEnd(instance, instance.notice_ends_at, why)
    return _BY_STAGE[instance.stage](variant, instance, now)


def _forget(variant: Variant, instance: Instance) -> ForgetInstance:
    if instance.stage is Stage.TERMINATING:
        return ForgetInstance(variant, instance, f"{_name(instance)} is gone")
    failure = None if instance.was_ready or instance.stage is Stage.DRAINING else _never_answered(variant, "it vanished")
    return ForgetInstance(variant, instance, f"{_name(instance)} vanished: the provider no longer knows it", failure)


def _terminate_again(variant: Variant, instance: Instance, now: datetime) -> Terminate | None:
    asked = instance.terminate_asked_at
    if asked is not None and now - asked < timedelta(seconds=_terminate_again_seconds(instance, now)):
        return None
    return Terminate(variant, instance, f"{_name(instance)} has not ended yet: asked for its end again")


def _terminate_again_seconds(instance: Instance, now: datetime) -> float:
    if instance.sighting is Sighting.UNKNOWN:
        return TERMINATE_AGAIN_LAST_SECONDS
    return min(max(_age(instance, now) / 10, TERMINATE_AGAIN_SECONDS), TERMINATE_AGAIN_LAST_SECONDS)


def _end_exited(variant: Variant, instance: Instance) -> Terminate:
    if instance.was_ready or instance.stage is Stage.DRAINING:
        return Terminate(variant, instance, f"{_name(instance)} exited while serving: {instance.detail}")
    if not instance.failure:
        return Terminate(variant, instance, f"{_name(instance)} was taken away before it was ready: {instance.detail}")
    if instance.failure == "model_data":
        reason = f"Failed to download model data for container for production variant {variant.name}. {instance.detail}"
        return Terminate(variant, instance, f"{_name(instance)} got no model data", StartFailure(reason, is_final=True))
    failure = _never_answered(variant, instance.detail)
    return Terminate(variant, instance, f"{_name(instance)} exited before it was ready: {instance.detail}", failure)


def _look_after_pending(variant: Variant, instance: Instance, now: datetime) -> Action | None:
    if instance.sighting is Sighting.RUNNING and instance.is_healthy:
        return _ready(variant, instance, now)
    if instance.sighting is Sighting.RUNNING:
        return MarkStarting(instance, f"{_name(instance)} runs; waiting for its first good /ping")
    limit = BOOT_TIMEOUT_SECONDS + variant.download_timeout_seconds
    if _age(instance, now) > limit:
        failure = _never_answered(variant, f"it had no address after {limit:.0f} s")
        return Terminate(variant, instance, f"{_name(instance)} did not boot within {limit:.0f} s", failure)
    return None


def _look_after_starting(variant: Variant, instance: Instance, now: datetime) -> Action | None:
    if instance.is_healthy:
        return _ready(variant, instance, now)
    limit = variant.startup_timeout_seconds
    if _age(instance, now) > limit:
        failure = _never_answered(variant, instance.detail, is_final=True)
        return Terminate(variant, instance, f"{_name(instance)} had no good /ping within {limit:.0f} s", failure)
    return None


def _look_after_ready(variant: Variant, instance: Instance, now: datetime) -> Action | None:
    del now
    if instance.is_healthy and instance.failed_pings:
        return NotePing(instance, 0, f"{_name(instance)} answers /ping again")
    if instance.is_healthy is not False:
        return None
    failed = instance.failed_pings + 1
    if failed >= FAILED_PINGS_LIMIT:
        return Terminate(variant, instance, f"{_name(instance)} failed /ping {failed} times in a row: {instance.detail}")
    return NotePing(
        instance, failed, f"{_name(instance)} failed /ping ({failed} of {FAILED_PINGS_LIMIT}): {instance.detail}"
    )


def _look_after_draining(variant: Variant, instance: Instance, now: datetime) -> Action | None:
    if instance.in_flight == 0:
        return Terminate(variant, instance, f"{_name(instance)} has no calls left: ended")
    if _age(instance, now) > DRAIN_TIMEOUT_SECONDS:
        return Terminate(variant, instance, f"{_name(instance)} still had calls after {DRAIN_TIMEOUT_SECONDS:.0f} s: ended")
    return None


_BY_STAGE = {
    Stage.PENDING: _look_after_pending,
    Stage.STARTING: _look_after_starting,
    Stage.READY: _look_after_ready,
    Stage.DRAINING: _look_after_draining,
}


def _ready(variant: Variant, instance: Instance, now: datetime) -> MarkReady:
    seconds = (now - instance.launched_at).total_seconds()
    return MarkReady(variant, instance, f"{_name(instance)} serves, {seconds:.1f} s after its launch")


def _never_answered(variant: Variant, detail: str, *, is_final: bool = False) -> StartFailure:
    """The FailureReason of an instance that never passed its health check, with what was last seen of it."""
    last_seen = f" Last seen: {detail.rstrip('.')}." if detail else ""
    return StartFailure(
        f"The primary container for production variant {variant.name} did not pass the ping health check. "
        f"Please check CloudWatch logs for this endpoint.{last_seen}",
        is_final,
    )


def _age(instance: Instance, now: datetime) -> float:
    return (now - instance.stage_since).total_seconds()


def _name(instance: Instance) -> str:
    """What humans call the instance: its type and the start of its id."""
    return f"{instance.pool.instance_type} {instance.id[:8]}"
