"""The fleet planner: pure, level-triggered, one endpoint at a time.

`plan(endpoint, now)` looks at the whole picture and says what to do now. It never remembers anything: whatever a later
decision needs is a stored fact in the view. Deletion comes first and needs nothing that may be missing.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from controlplane.core.offerings import Offering, Search, Standing, Wait, ladder, next_offering
from controlplane.core.words import counted
from workers.fleet import homing, pace, rollout
from workers.fleet.actions import (
    Action,
    Drain,
    EnterService,
    FailRollback,
    ForgetInstance,
    GiveUp,
    Launch,
    NoteShort,
    Plan,
    RemoveEndpoint,
    RemoveVariant,
    ResolveAttempt,
    Terminate,
)
from workers.fleet.rollout import Pause
from workers.fleet.scale_in import victims
from workers.fleet.upkeep import action_for
from workers.fleet.view import (
    IN_OPERATION,
    WANTED,
    Attempt,
    Deployment,
    DeploymentStage,
    Endpoint,
    Instance,
    Leave,
    Phase,
    Stage,
    Variant,
)

START_FAILURES_LIMIT = 3
"""So many instances in a row that never came up and the running operation fails: it is the model, not the capacity."""

PING_SECONDS = 5.0
"""How often a serving instance's /ping is asked."""

BOOT_LOOK_FIRST_SECONDS = 0.25
BOOT_LOOK_LAST_SECONDS = 5.0
"""A booting instance is looked at often while it is young: after a tenth of its age, within these bounds."""

END_NOTICE_DRAIN_SECONDS = 60.0
"""So long before an announced end the instance gets no new calls, replaced or not: a call may take as long."""

END_LOOK_SECONDS = 1.0
IDLE_LOOK_SECONDS = 300.0

NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. Please retry using a "
    "different ML instance type or after some time. Consider configuring InstancePools in your EndpointConfig with "
    "multiple instance types for priority-based fallback to improve capacity availability."
)

_AT_REST = frozenset({Phase.IN_SERVICE, Phase.UPDATE_ROLLBACK_FAILED})


def plan(endpoint: Endpoint, now: datetime) -> Plan:
    """What to do about `endpoint` now, and when to look again at the latest."""
    if endpoint.phase in (Phase.DELETING, Phase.FAILED):
        return _plan_unwinding(endpoint, now)
    if endpoint.deployment is not None:
        return _plan_deployment(endpoint, endpoint.deployment, now)
    plans = _plan_variants(endpoint, lambda variant: endpoint.phase, now)
    actions = _one_outcome([action for each in plans for action in each.actions])
    actions = actions or tuple(_remove(variant) for variant in endpoint.variants if _is_spent(variant, endpoint))
    if not actions and _has_settled(endpoint):
        actions = (EnterService(_in_service(endpoint)),)
    return Plan(actions, min(each.look_again_at for each in plans), _sentence(endpoint, plans))


def _plan_variants(endpoint: Endpoint, phase_of: Callable[[Variant], Phase], now: datetime) -> list[Plan]:
    """A plan for each variant, in order; what one of them is about to spend is no longer there for the next."""
    headroom = _headroom(endpoint)
    plans = []
    for variant in endpoint.variants:
        found = plan_variant(variant, phase_of(variant), now, headroom)
        plans.append(found)
        if headroom is not None:
            headroom -= sum(_cost(action) for action in found.actions if isinstance(action, Launch))
    return plans


def _headroom(endpoint: Endpoint) -> float | None:
    """What more instances may cost per hour; draining and ending ones still cost, an open attempt may."""
    if endpoint.hourly_ceiling is None:
        return None
    variants = endpoint.variants
    spent = sum(instance.hourly_price for variant in variants for instance in variant.instances)
    return endpoint.hourly_ceiling - spent - sum(a.hourly_price for variant in variants for a in variant.attempts)


def _cost(launch: Launch) -> float:
    return (launch.offering.hourly_price or 0.0) * launch.count


def _sentence(endpoint: Endpoint, plans: list[Plan]) -> str:
    """Where things stand, of the variants that are in service."""
    pairs = zip(endpoint.variants, plans, strict=True)
    return " ".join(each.why for variant, each in pairs if variant.revision == endpoint.revision or variant.instances)


def _one_outcome(actions: list[Action]) -> tuple[Action, ...]:
    """The actions of all variants; when one gives up, the endpoint does: once, last, and nothing is launched for it."""
    given_up = [action for action in actions if isinstance(action, GiveUp)]
    if not given_up:
        return tuple(actions)
    return (*(action for action in actions if not isinstance(action, GiveUp | Launch)), given_up[0])


def _plan_deployment(endpoint: Endpoint, deployment: Deployment, now: datetime) -> Plan:
    """Look after both fleets; once they are quiet, the deployment's next move."""
    turn = rollout.turn_back(deployment, now)
    if turn is not None:
        return Plan((turn,), now, turn.why)
    plans = _plan_variants(endpoint, lambda variant: _deploying_phase(variant, deployment), now)
    actions = _deployment_outcome([action for each in plans for action in each.actions], deployment)
    look_again_at = min(each.look_again_at for each in plans)
    why = _sentence(endpoint, plans)
    if actions:
        return Plan(actions, look_again_at, why)
    move = rollout.next_move(endpoint, deployment, now)
    if isinstance(move, Pause):
        wakes = [look_again_at, move.until, *([deployment.deadline] if deployment.deadline else [])]
        return Plan((), max(min(wakes), now), f"{move.why} {why}")
    return Plan((move,), look_again_at, why)


def _deploying_phase(variant: Variant, deployment: Deployment) -> Phase:
    """The fleet that is to grow is in operation and may give up; the other one is only looked after."""
    is_back = deployment.stage is DeploymentStage.ROLLING_BACK
    is_growing = (variant.revision == deployment.to_revision) != is_back
    return Phase.UPDATING if is_growing and (not is_back or variant.provision_deadline) else Phase.IN_SERVICE


def _deployment_outcome(actions: list[Action], deployment: Deployment) -> tuple[Action, ...]:
    """As `_one_outcome`: the new fleet's giving up turns the deployment back, the old one's fails the way back."""
    found = _one_outcome(actions)
    if not found or not isinstance(found[-1], GiveUp):
        return found
    given_up = found[-1]
    if deployment.stage is DeploymentStage.ROLLING_BACK:
        reason = f"{deployment.failure_reason} The roll-back failed too: {given_up.why}"
        return (*found[:-1], FailRollback(given_up.variant, reason))
    return (*found[:-1], rollout.roll_back(deployment, given_up.why))


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
        return Plan(tuple(actions), now + timedelta(seconds=END_LOOK_SECONDS), f"{counted(left, 'instance')} still to end.")
    if endpoint.phase is Phase.DELETING:
        return Plan((RemoveEndpoint("nothing is left of it"),), now, "Deleted.")
    return Plan((), now + timedelta(seconds=IDLE_LOOK_SECONDS), "Failed; waits to be deleted.")


def _without_failure(action: Terminate | ForgetInstance) -> Terminate | ForgetInstance:
    """An instance of an endpoint that goes away fails nothing any more."""
    return type(action)(action.variant, action.instance, action.why)


def plan_variant(variant: Variant, phase: Phase, now: datetime, headroom: float | None = None) -> Plan:
    """What to do about one variant of an endpoint that is to serve; `headroom` as in `Search`."""
    upkeep = [(instance, action_for(variant, instance, now)) for instance in variant.instances]
    alive = [i for i, action in upkeep if i.stage in WANTED and not isinstance(action, Terminate | ForgetInstance)]
    movers = homing.movers(alive, now)
    doomed = [instance for instance in alive if instance.ends_at is not None or _is_asked_to_leave(instance, phase)]
    staying = [instance for instance in alive if instance not in movers and instance not in doomed]
    missing = variant.desired_count - len(staying)
    # An attempt may have come to nothing, so no instance has to go for it before that is known.
    leaving = [*victims(tuple(staying), -missing), *_taken_away(variant, staying, doomed, now)]
    actions: list[Action] = []
    for instance, action in upkeep:
        if action and instance not in leaving:
            actions += homing.without_failure(variant, action) if instance.replaces else [action]
    actions += [_send_away(variant, instance) for instance in leaving]
    actions += homing.arrivals(variant, alive, movers)
    attempts = [attempt for attempt in variant.attempts if not attempt.replaces]
    wanted_attempts = 0 if _is_overdue(variant, phase, now) else missing
    actions += [_resolve(variant, each, is_wanted=place < wanted_attempts) for place, each in enumerate(attempts)]
    actions += [_resolve(variant, each, is_wanted=missing == 0) for each in variant.attempts if each.replaces]
    look_again_at = _next_look(variant, now)
    why = _counts(variant, staying, doomed)
    unasked = missing - len(attempts)
    if unasked > 0 and not _has_loss(actions):
        step = _fill(variant, unasked, phase, now, headroom)
        actions += _short_from_now(variant)
        if isinstance(step, Wait):
            look_again_at = min(look_again_at, step.until)
            why = f"{why} {step.why}."
        else:
            actions.append(step)
    elif phase is Phase.IN_SERVICE and not actions:
        actions += homing.departure(variant, staying, movers, headroom, now)
        why = f"{why} {homing.pause(variant, staying)}".rstrip()
    return Plan(tuple(actions), look_again_at, why)


def _is_asked_to_leave(instance: Instance, phase: Phase) -> bool:
    """Whether an operator's wish counts now: what serves is not replaced while the endpoint is still being changed, or a
    search for the replacement that runs out of time would undo the change."""
    return instance.leave is Leave.DRAIN or (instance.leave is Leave.REPLACE and phase not in IN_OPERATION)


def _counts(variant: Variant, staying: list[Instance], doomed: list[Instance]) -> str:
    """How many of the wanted instances serve; those that are to be replaced serve on, but count no more."""
    found = f"Variant {variant.name} has {_ready_count(staying)} of {counted(variant.desired_count, 'instance')} serving."
    waiting = sum(each.stage is Stage.READY and each.leave is Leave.REPLACE for each in doomed)
    return f"{found} Serving until replaced: {waiting} more." if waiting else found


def _taken_away(variant: Variant, staying: list[Instance], doomed: list[Instance], now: datetime) -> list[Instance]:
    """Announced to be taken away, or asked to leave: sent away once a replacement serves, before it serves at all, when
    time presses, or when an operator wants it gone at once."""
    is_replaced = _ready_count(staying) >= variant.desired_count
    presses = now + timedelta(seconds=END_NOTICE_DRAIN_SECONDS)
    pressed = [i for i in doomed if i.leave is Leave.DRAIN or (i.ends_at is not None and i.ends_at <= presses)]
    return [i for i in doomed if is_replaced or i.stage is not Stage.READY or i in pressed]


def _short_from_now(variant: Variant) -> list[Action]:
    """Start the clock of patience, once, where a pool has any."""
    is_patient = any(offering.pool.patience_seconds for offering in variant.offerings)
    if variant.short_since is not None or not is_patient:
        return []
    return [NoteShort(variant, f"variant {variant.name} lacks an instance: the patience of its pools starts to run")]


def _fill(variant: Variant, missing: int, phase: Phase, now: datetime, headroom: float | None) -> Launch | GiveUp | Wait:
    """How to get `missing` more instances: launch, wait, or give the running operation up."""
    if phase in IN_OPERATION and variant.start_failures >= START_FAILURES_LIMIT:
        return GiveUp(variant, variant.start_failure_reason)
    if _is_overdue(variant, phase, now):
        return GiveUp(variant, _no_capacity(variant, headroom, now))
    search = Search(variant.offerings, variant.short_since, variant.launch_not_before, headroom)
    choice = pace.rest(variant, now) or next_offering(search, now)
    if isinstance(choice, Wait):
        deadline = _deadline(variant, phase)
        return choice if deadline is None else Wait(min(choice.until, deadline), choice.why)
    count = 1 if choice.is_probe else _allowed(missing, choice.offering, headroom)
    pool = choice.offering.pool
    why = f"variant {variant.name} asks for {count} x {pool.instance_type} (priority {pool.priority})"
    why = f"{why}: {choice.why}" if choice.why else why
    return Launch(variant, choice.offering, count, choice.is_probe, why, headroom=headroom)


def _no_capacity(variant: Variant, headroom: float | None, now: datetime) -> str:
    """The FailureReason of a search in vain, with what the ceiling ruled out."""
    rungs = ladder(Search(variant.offerings, headroom=headroom), now)
    dear = dict.fromkeys(rung.why for rung in rungs if rung.standing is Standing.TOO_DEAR)
    return " ".join([NO_CAPACITY, *(f"{why}." for why in dear)])


def _allowed(missing: int, offering: Offering, headroom: float | None) -> int:
    """As many as are missing, as far as ceiling and quota allow; one of the offering is known to fit."""
    count = missing if offering.room is None else min(missing, offering.room)
    if headroom is not None and offering.hourly_price:
        count = min(count, int((headroom + 1e-9) / offering.hourly_price))
    return max(count, 1)


def _deadline(variant: Variant, phase: Phase) -> datetime | None:
    """When the search for capacity ends; in steady state it never does."""
    return variant.provision_deadline if phase in IN_OPERATION else None


def _is_overdue(variant: Variant, phase: Phase, now: datetime) -> bool:
    deadline = _deadline(variant, phase)
    return deadline is not None and deadline <= now


def _has_loss(actions: Iterable[Action]) -> bool:
    """Whether this round counts a failed start or a life's end: what it means for the next launch is seen once stored."""
    lost = (action for action in actions if isinstance(action, Terminate | ForgetInstance))
    return any(action.start_failure or action.instance.stage is Stage.READY for action in lost)


def _send_away(variant: Variant, instance: Instance) -> Drain | Terminate:
    pool = instance.pool
    name = f"{pool.instance_type} {instance.id[:8]} (priority {pool.priority})"
    if instance.leave:
        return _send_away_as_asked(variant, instance, name)
    if instance.stage is Stage.READY:
        return Drain(variant, instance, f"{name} is no longer needed: drained first")
    return Terminate(variant, instance, f"{name} is no longer needed and was not ready yet: ended")


def _send_away_as_asked(variant: Variant, instance: Instance, name: str) -> Drain | Terminate:
    by = instance.leave_asked_by or "an operator"
    if instance.stage is not Stage.READY:
        return Terminate(variant, instance, f"{name} was not ready yet and is ended, as {by} asked")
    if instance.leave is Leave.REPLACE:
        return Drain(variant, instance, f"{name} is drained, as {by} asked: the fleet is whole without it")
    return Drain(variant, instance, f"{name} is drained, as {by} asked")


def _resolve(variant: Variant, attempt: Attempt, *, is_wanted: bool) -> ResolveAttempt:
    why = "the outcome of this launch was lost: the provider is asked by its token"
    return ResolveAttempt(variant, attempt, is_wanted, why)


def _is_spent(variant: Variant, endpoint: Endpoint) -> bool:
    """Whether this is what an ended deployment left behind, and nothing of it is left to look after."""
    is_in_use = variant.desired_count or variant.instances or variant.attempts
    return variant.revision != endpoint.revision and not is_in_use


def _remove(variant: Variant) -> RemoveVariant:
    return RemoveVariant(variant, f"nothing is left of variant {variant.name} of revision {variant.revision}")


def _has_settled(endpoint: Endpoint) -> bool:
    """Whether the running operation is over: everything wanted serves and nothing unwanted is left.

    A roll-back is over once the surplus is gone; an instance it lacks is healed in service.
    """
    if endpoint.phase in _AT_REST:
        return False
    for variant in endpoint.variants:
        staying = [instance for instance in variant.instances if instance.stage in WANTED]
        missing = variant.desired_count - _ready_count(staying)
        if variant.attempts or len(staying) > variant.desired_count:
            return False
        if missing > 0 and endpoint.phase is not Phase.ROLLING_BACK:
            return False
    return True


def _in_service(endpoint: Endpoint) -> str:
    """Which instances serve, by variant and type."""
    parts = []
    for variant in (each for each in endpoint.variants if each.revision == endpoint.revision):
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
