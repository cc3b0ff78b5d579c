"""The fleet planner: pure, level-triggered, one endpoint at a time.

`plan(endpoint, now)` looks at the whole picture and says what to do now. It never remembers anything: whatever a later
decision needs is a stored fact in the view. Deletion comes first and needs nothing that may be missing.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from workers.fleet.actions import (
    Action,
    Drain,
    EnterService,
    ForgetInstance,
    GiveUp,
    Launch,
    Plan,
    RemoveEndpoint,
    ResolveAttempt,
    Terminate,
)
from workers.fleet.capacity import Wait, next_offering
from workers.fleet.scale_in import victims
from workers.fleet.upkeep import action_for
from workers.fleet.view import Attempt, Endpoint, Instance, Phase, Stage, Variant

START_FAILURES_LIMIT = 3
"""So many instances in a row that never came up and the running operation fails: it is the model, not the capacity."""

PING_SECONDS = 5.0
"""How often a serving instance's /ping is asked."""

BOOT_LOOK_FIRST_SECONDS = 0.25
BOOT_LOOK_LAST_SECONDS = 5.0
"""A booting instance is looked at often while it is young: after a tenth of its age, within these bounds."""

END_LOOK_SECONDS = 1.0
IDLE_LOOK_SECONDS = 300.0

NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. Please retry using a "
    "different ML instance type or after some time. Consider configuring InstancePools in your EndpointConfig with "
    "multiple instance types for priority-based fallback to improve capacity availability."
)

_IN_OPERATION = frozenset({Phase.CREATING, Phase.UPDATING})
_LIVE = frozenset({Stage.PENDING, Stage.STARTING, Stage.READY})


def plan(endpoint: Endpoint, now: datetime) -> Plan:
    """What to do about `endpoint` now, and when to look again at the latest."""
    if endpoint.phase in (Phase.DELETING, Phase.FAILED):
        return _plan_unwinding(endpoint, now)
    plans = [plan_variant(variant, endpoint.phase, now) for variant in endpoint.variants]
    actions = _one_outcome([action for each in plans for action in each.actions])
    why = " ".join(each.why for each in plans)
    if not actions and _has_settled(endpoint):
        actions = (EnterService(_in_service(endpoint)),)
    return Plan(actions, min(each.look_again_at for each in plans), why)


def _one_outcome(actions: list[Action]) -> tuple[Action, ...]:
    """The actions of all variants; when one gives up, the endpoint does: once, last, and nothing is launched for it."""
    given_up = [action for action in actions if isinstance(action, GiveUp)]
    if not given_up:
        return tuple(actions)
    return (*(action for action in actions if not isinstance(action, GiveUp | Launch)), given_up[0])


def _plan_unwinding(endpoint: Endpoint, now: datetime) -> Plan:
    """End everything; for a deleted endpoint then remove its rows."""
    actions: list[Action] = []
    for variant in endpoint.variants:
        actions += [_resolve(variant, attempt, is_wanted=False) for attempt in variant.attempts]
        for instance in variant.instances:
            action = action_for(variant, instance, now)
            if isinstance(action, Terminate | ForgetInstance):
                actions.append(_without_failure(action))
            elif instance.stage is not Stage.TERMINATING:
                actions.append(Terminate(variant, instance, f"the endpoint is {endpoint.phase.value.lower()}"))
    left = sum(len(variant.instances) + len(variant.attempts) for variant in endpoint.variants)
    if left:
        return Plan(tuple(actions), now + timedelta(seconds=END_LOOK_SECONDS), f"{left} instance(s) still to end.")
    if endpoint.phase is Phase.DELETING:
        return Plan((RemoveEndpoint("nothing is left of it"),), now, "Deleted.")
    return Plan((), now + timedelta(seconds=IDLE_LOOK_SECONDS), "Failed; waits to be deleted.")


def _without_failure(action: Terminate | ForgetInstance) -> Terminate | ForgetInstance:
    """An instance of an endpoint that goes away fails nothing any more."""
    return type(action)(action.variant, action.instance, action.why)


def plan_variant(variant: Variant, phase: Phase, now: datetime) -> Plan:
    """What to do about one variant of an endpoint that is to serve."""
    upkeep = [(instance, action_for(variant, instance, now)) for instance in variant.instances]
    staying = [i for i, action in upkeep if i.stage in _LIVE and not isinstance(action, Terminate | ForgetInstance)]
    missing = variant.desired_count - len(staying)
    # An attempt may have come to nothing, so no instance has to go for it before that is known.
    leaving = victims(tuple(staying), -missing)
    actions: list[Action] = [action for instance, action in upkeep if action and instance not in leaving]
    actions += [_send_away(variant, instance) for instance in leaving]
    wanted_attempts = 0 if _is_overdue(variant, phase, now) else missing
    actions += [_resolve(variant, each, is_wanted=place < wanted_attempts) for place, each in enumerate(variant.attempts)]
    look_again_at = _next_look(variant, now)
    why = f"Variant {variant.name} has {_ready_count(staying)} of {variant.desired_count} instance(s) serving."
    unasked = missing - len(variant.attempts)
    if unasked > 0 and not _has_start_failure(actions):
        step = _fill(variant, unasked, phase, now)
        if isinstance(step, Wait):
            look_again_at = min(look_again_at, step.until)
            why = f"{why} {step.why}."
        else:
            actions.append(step)
    return Plan(tuple(actions), look_again_at, why)


def _fill(variant: Variant, missing: int, phase: Phase, now: datetime) -> Launch | GiveUp | Wait:
    """How to get `missing` more instances: launch, wait, or give the running operation up."""
    if phase in _IN_OPERATION and variant.start_failures >= START_FAILURES_LIMIT:
        return GiveUp(variant, variant.start_failure_reason)
    if _is_overdue(variant, phase, now):
        return GiveUp(variant, NO_CAPACITY)
    choice = next_offering(variant, now)
    if isinstance(choice, Wait):
        deadline = _deadline(variant, phase)
        return choice if deadline is None else Wait(min(choice.until, deadline), choice.why)
    count = 1 if choice.is_probe else missing
    pool = choice.offering.pool
    why = f"variant {variant.name} asks for {count} x {pool.instance_type} (priority {pool.priority})"
    return Launch(variant, choice.offering, count, choice.is_probe, f"{why}: {choice.why}" if choice.why else why)


def _deadline(variant: Variant, phase: Phase) -> datetime | None:
    """When the search for capacity ends; in steady state it never does."""
    return variant.provision_deadline if phase in _IN_OPERATION else None


def _is_overdue(variant: Variant, phase: Phase, now: datetime) -> bool:
    deadline = _deadline(variant, phase)
    return deadline is not None and deadline <= now


def _has_start_failure(actions: Iterable[Action]) -> bool:
    """Whether this round counts a failed start: what that means for the next launch is seen once it is stored."""
    return any(isinstance(action, Terminate | ForgetInstance) and action.start_failure for action in actions)


def _send_away(variant: Variant, instance: Instance) -> Drain | Terminate:
    pool = instance.pool
    name = f"{pool.instance_type} {instance.id[:8]} (priority {pool.priority})"
    if instance.stage is Stage.READY:
        return Drain(variant, instance, f"{name} is no longer needed: drained first")
    return Terminate(variant, instance, f"{name} is no longer needed and was not ready yet: ended")


def _resolve(variant: Variant, attempt: Attempt, *, is_wanted: bool) -> ResolveAttempt:
    why = "the outcome of this launch was lost: the provider is asked by its token"
    return ResolveAttempt(variant, attempt, is_wanted, why)


def _has_settled(endpoint: Endpoint) -> bool:
    """Whether the running operation is over: everything wanted serves and nothing unwanted is left.

    A roll-back is over once the surplus is gone; an instance it lacks is healed in service.
    """
    if endpoint.phase is Phase.IN_SERVICE:
        return False
    for variant in endpoint.variants:
        staying = [instance for instance in variant.instances if instance.stage in _LIVE]
        missing = variant.desired_count - _ready_count(staying)
        if variant.attempts or len(staying) > variant.desired_count:
            return False
        if missing > 0 and endpoint.phase is not Phase.ROLLING_BACK:
            return False
    return True


def _in_service(endpoint: Endpoint) -> str:
    """Which instances serve, by variant and type."""
    parts = []
    for variant in endpoint.variants:
        counts: dict[str, int] = {}
        for instance in variant.instances:
            if instance.stage is Stage.READY:
                counts[instance.pool.instance_type] = counts.get(instance.pool.instance_type, 0) + 1
        fleet = ", ".join(f"{count} x {name}" for name, count in counts.items()) or "no instances"
        parts.append(f"{variant.name} on {fleet}")
    return f"in service: {'; '.join(parts)}"


def _ready_count(instances: Iterable[Instance]) -> int:
    return sum(instance.stage is Stage.READY for instance in instances)


def _next_look(variant: Variant, now: datetime) -> datetime:
    """The earliest time at which something about this variant may have changed by itself."""
    waits = [_look_seconds(instance, now) for instance in variant.instances]
    waits += [END_LOOK_SECONDS for _ in variant.attempts]
    return now + timedelta(seconds=min(waits, default=IDLE_LOOK_SECONDS))


def _look_seconds(instance: Instance, now: datetime) -> float:
    if instance.stage in (Stage.PENDING, Stage.STARTING):
        age = (now - instance.launched_at).total_seconds()
        return min(max(age / 10, BOOT_LOOK_FIRST_SECONDS), BOOT_LOOK_LAST_SECONDS)
    if instance.stage is Stage.READY:
        return PING_SECONDS
    age = (now - instance.stage_since).total_seconds()
    return min(max(age / 10, END_LOOK_SECONDS / 4), PING_SECONDS)
