"""The pure rules of a deployment: from the old fleet to the new one in steps, and back when it fails.

A strategy is a list of `Step`s; one machine walks them, whatever the strategy:

    PENDING --> (step) RETIRING --> PROVISIONING --> ACTIVATING --> BAKING --+--> (next step)
                 surge-less only                                             |
                                                                             +--> WAITING --> CLEANING --> finished

    an alarm rings, time is up, or the new fleet cannot be had --> ROLLING_BACK, batch by batch --> the old fleet alone
                                                                        |
                                                  the old fleet cannot be restored: the rollback failed, both serve

RETIRING waits until the batch that goes first is gone. PROVISIONING waits until the step's instances of the new
revision serve. ACTIVATING shifts calls to them, and lets the routing tables arrive. BAKING watches the alarms. WAITING
keeps the old fleet as it is for a while, CLEANING drains it. Waits and sizes are those of the API's DeploymentConfig.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from controlplane.core.words import counted
from workers.fleet.actions import Advance, EndRollback, FinishDeployment, RollBack
from workers.fleet.view import Deployment, DeploymentStage, Endpoint, Rollout, Size, SizeUnit, Stage, Strategy, Variant

ACTIVATION_SECONDS = 1.0
"""How long a shift of calls is given to reach every gateway; a NOTIFY takes milliseconds."""

WAIT_LOOK_SECONDS = 300.0

_BATCHED = frozenset({Rollout.ROLLING, Rollout.SURGELESS})
_COMING_OR_SERVING = frozenset({Stage.PENDING, Stage.STARTING, Stage.READY})
_PAST_THE_BAKE = frozenset({DeploymentStage.WAITING, DeploymentStage.CLEANING, DeploymentStage.ROLLING_BACK})

Counts = Mapping[int, int]
"""Wanted instances by variant id."""

Move = Advance | RollBack | FinishDeployment | EndRollback


@dataclass(frozen=True)
class Step:
    """One step: `new` instances serve, then `share` of the calls goes to them and `old` instances are left."""

    new: Counts
    share: float
    old: Counts


@dataclass(frozen=True)
class Pause:
    """Nothing to do before `until`, or before a fact changes."""

    until: datetime
    why: str


def next_move(endpoint: Endpoint, deployment: Deployment, now: datetime) -> Move | Pause:
    """What the deployment does now that its fleets are as they are."""
    new, old = _fleets(endpoint, deployment)
    if deployment.stage is DeploymentStage.ROLLING_BACK:
        return _step_back(deployment, new, old, now)
    return _FORWARD[deployment.stage](deployment, new, old, now)


def turn_back(deployment: Deployment, now: datetime) -> RollBack | None:
    """The end of a deployment whose alarms ring or whose time is up, whatever else goes on."""
    if deployment.stage in _PAST_THE_BAKE:
        return None
    if deployment.alarms and deployment.share > 0:
        names = ", ".join(deployment.alarms)
        return roll_back(deployment, f"The deployment was rolled back because of alarms in state ALARM: {names}.")
    if deployment.deadline is not None and deployment.deadline <= now:
        return roll_back(deployment, "The deployment did not finish within MaximumExecutionTimeoutInSeconds.")
    return None


def roll_back(deployment: Deployment, reason: str) -> RollBack:
    """Turn back for `reason`: blue/green sends every call to the old fleet at once, a rolling one batch by batch."""
    share = None if deployment.strategy.rollout in _BATCHED else 0.0
    return RollBack(reason, deployment.step, f"the deployment is undone: {reason}", share)


def steps(strategy: Strategy, new: Sequence[Variant], old: Sequence[Variant]) -> tuple[Step, ...]:
    """The strategy's steps from the old fleet at its full counts to the new one at its own; at least one."""
    if strategy.rollout in _BATCHED:
        return _batches(strategy.size, new, old)
    shares = _shares(strategy, sum(variant.full_count for variant in new))
    kept = [0.0, *shares] if strategy.rollout is Rollout.LINEAR else [0.0] * len(shares)
    return tuple(Step(_full(new), share, _left(old, gone)) for share, gone in zip(shares, kept, strict=False))


def steps_back(deployment: Deployment, new: Sequence[Variant], old: Sequence[Variant]) -> tuple[Step, ...]:
    """The steps by which a failed deployment returns; in the last one the new fleet has no instances and no calls."""
    none = {variant.id: 0 for variant in new}
    if deployment.strategy.rollout not in _BATCHED:
        return (Step(none, 0.0, _full(old)),)
    reached = steps(deployment.strategy, new, old)[max(deployment.rolled_back_from, 1) - 1].new
    batch = {variant.id: _batch(deployment.strategy.rollback_size, variant.full_count) for variant in new}
    count = max((ceil(reached[id_] / batch[id_]) for id_ in reached), default=1)
    back = [{id_: max(reached[id_] - number * batch[id_], 0) for id_ in reached} for number in range(1, count)]
    total = sum(variant.full_count for variant in new) or 1
    kept = [(counts, sum(counts.values()) / total) for counts in back]
    return (*(Step(counts, share, _left(old, share)) for counts, share in kept), Step(none, 0.0, _full(old)))


def _fleets(endpoint: Endpoint, deployment: Deployment) -> tuple[list[Variant], list[Variant]]:
    """The variants of the new revision, and those of every other one."""
    new = [variant for variant in endpoint.variants if variant.revision == deployment.to_revision]
    return new, [variant for variant in endpoint.variants if variant.revision != deployment.to_revision]


def _full(variants: Sequence[Variant]) -> Counts:
    return {variant.id: variant.full_count for variant in variants}


def _left(old: Sequence[Variant], gone: float) -> Counts:
    """What is left of the old fleet when the share `gone` of it has been retired; rounded in its favour."""
    return {variant.id: ceil(variant.full_count * (1 - gone) - 1e-9) for variant in old}


def _shares(strategy: Strategy, instances: int) -> list[float]:
    """The shares of calls on the new fleet, step by step, ending with all of them."""
    size = strategy.size
    part = size.value / 100 if size.unit is SizeUnit.CAPACITY_PERCENT else size.value / max(instances, 1)
    if strategy.rollout is Rollout.ALL_AT_ONCE or part >= 1 or not instances:
        return [1.0]
    if strategy.rollout is Rollout.CANARY:
        return [part, 1.0]
    return [min(part * number, 1.0) for number in range(1, ceil(1 / part - 1e-9) + 1)]


def _batches(size: Size, new: Sequence[Variant], old: Sequence[Variant]) -> tuple[Step, ...]:
    """Batch by batch; the share of calls and what is left of the old fleet follow the new fleet's growth."""
    total = sum(variant.full_count for variant in new)
    batch = {variant.id: _batch(size, variant.full_count) for variant in new}
    count = max((ceil(variant.full_count / batch[variant.id]) for variant in new), default=0) or 1
    found = []
    for number in range(1, count + 1):
        counts = {variant.id: min(number * batch[variant.id], variant.full_count) for variant in new}
        share = sum(counts.values()) / total if total else 1.0
        found.append(Step(counts, share, _left(old, share)))
    return tuple(found)


def _batch(size: Size, full_count: int) -> int:
    """Instances of a batch: at most the size, at least one (a third of 3 is 1, and so is a third of 2)."""
    if size.unit is SizeUnit.INSTANCE_COUNT:
        return max(size.value, 1)
    return max(full_count * size.value // 100, 1)


def _enter(number: int, deployment: Deployment, new: Sequence[Variant], old: Sequence[Variant]) -> Advance:
    """Begin the step of this number: surge-less retires the old batch first, all others start with the new one."""
    every = steps(deployment.strategy, new, old)
    step = every[number - 1]
    of = f"step {number} of {len(every)}"
    if deployment.strategy.rollout is not Rollout.SURGELESS:
        return _provision(step, number, new, f"{of}: {_instances(step.new)} of the new revision are to serve")
    done = every[number - 2].share if number > 1 else 0.0
    remaining = 1 - step.share
    share = done / (done + remaining) if done else 0.0
    why = f"{of}, without surge: the old revision shrinks to {_instances(step.old)} first"
    return Advance(DeploymentStage.RETIRING, number, why, step.old, share)


def _provision(step: Step, number: int, new: Sequence[Variant], why: str) -> Advance:
    growing = tuple(variant.id for variant in new if variant.desired_count < step.new[variant.id])
    return Advance(DeploymentStage.PROVISIONING, number, why, step.new, searches=growing)


def _begin(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    del now
    return _enter(1, deployment, new, old)


def _retiring(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    step = steps(deployment.strategy, new, old)[deployment.step - 1]
    left = sum(max(len(variant.instances) - step.old[variant.id], 0) for variant in old)
    if left:
        return Pause(
            _later(now), f"{counted(left, 'instance')} of the old revision must end before their places are filled."
        )
    why = f"step {deployment.step}: {_instances(step.new)} of the new revision are to serve"
    return _provision(step, deployment.step, new, why)


def _provisioning(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    step = steps(deployment.strategy, new, old)[deployment.step - 1]
    missing = _missing(new, step.new)
    if missing:
        return Pause(_later(now), f"Step {deployment.step} waits for {counted(missing, 'instance')} of the new revision.")
    why = f"step {deployment.step}: {step.share:.0%} of the calls go to the new revision"
    return Advance(DeploymentStage.ACTIVATING, deployment.step, why, step.old, step.share)


def _activating(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    del new, old
    if now - deployment.stage_since < timedelta(seconds=ACTIVATION_SECONDS):
        return Pause(deployment.stage_since + timedelta(seconds=ACTIVATION_SECONDS), "Calls are being shifted.")
    why = f"step {deployment.step} bakes for {deployment.strategy.bake_seconds:g} s"
    return Advance(DeploymentStage.BAKING, deployment.step, why)


def _baking(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    baked_at = deployment.stage_since + timedelta(seconds=deployment.strategy.bake_seconds)
    if now < baked_at:
        return Pause(baked_at, f"Step {deployment.step} bakes until {baked_at:%H:%M:%S}.")
    if deployment.step < len(steps(deployment.strategy, new, old)):
        return _enter(deployment.step + 1, deployment, new, old)
    wait = deployment.strategy.termination_wait_seconds
    if wait:
        why = f"every call goes to the new revision; the old one is kept for {wait:g} s"
        return Advance(DeploymentStage.WAITING, deployment.step, why)
    return _clean(deployment, old)


def _waiting(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    del new
    ends_at = deployment.stage_since + timedelta(seconds=deployment.strategy.termination_wait_seconds)
    if now < ends_at:
        return Pause(ends_at, f"The old revision is kept until {ends_at:%H:%M:%S}.")
    return _clean(deployment, old)


def _clean(deployment: Deployment, old: Sequence[Variant]) -> Advance:
    why = "every call goes to the new revision; the old one is drained"
    return Advance(DeploymentStage.CLEANING, deployment.step, why, {variant.id: 0 for variant in old})


def _cleaning(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    del deployment, new
    left = _coming_or_serving(old)
    if left:
        return Pause(_later(now), f"{counted(left, 'instance')} of the old revision still to be drained.")
    return FinishDeployment("the new revision serves alone")


_FORWARD = {
    DeploymentStage.PENDING: _begin,
    DeploymentStage.RETIRING: _retiring,
    DeploymentStage.PROVISIONING: _provisioning,
    DeploymentStage.ACTIVATING: _activating,
    DeploymentStage.BAKING: _baking,
    DeploymentStage.WAITING: _waiting,
    DeploymentStage.CLEANING: _cleaning,
}


def _step_back(deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime) -> Move | Pause:
    """One batch back: the old revision is restored, then the new one shrinks; the other way round without surge.

    Where the step stands follows from the counts alone.
    """
    back = steps_back(deployment, new, old)
    step = back[min(deployment.step, len(back)) - 1]
    halves = (_restore, _shrink) if deployment.strategy.rollout is not Rollout.SURGELESS else (_shrink, _restore)
    for half in halves:
        move = half(step, deployment, new, old, now)
        if move is not None:
            return move
    if deployment.step < len(back):
        return Advance(DeploymentStage.ROLLING_BACK, deployment.step + 1, "the next batch goes back")
    left = _coming_or_serving(new)
    if left:
        return Pause(_later(now), f"{counted(left, 'instance')} of the new revision still to be drained.")
    return EndRollback("the old revision serves alone again")


def _restore(
    step: Step, deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime
) -> Move | Pause | None:
    del new
    growing = tuple(variant.id for variant in old if variant.desired_count < step.old[variant.id])
    if growing:
        why = f"step back {deployment.step}: the old revision grows to {_instances(step.old)}"
        return Advance(DeploymentStage.ROLLING_BACK, deployment.step, why, step.old, searches=growing)
    missing = _missing([variant for variant in old if variant.provision_deadline is not None], step.old)
    if missing:
        return Pause(_later(now), f"The roll-back waits for {counted(missing, 'instance')} of the old revision.")
    return None


def _shrink(
    step: Step, deployment: Deployment, new: list[Variant], old: list[Variant], now: datetime
) -> Move | Pause | None:
    del old
    if deployment.share != step.share or any(variant.desired_count > step.new[variant.id] for variant in new):
        why = f"step back {deployment.step}: {1 - step.share:.0%} of the calls go to the old revision"
        return Advance(DeploymentStage.ROLLING_BACK, deployment.step, why, step.new, step.share)
    surplus = sum(max(len(variant.instances) - step.new[variant.id], 0) for variant in new)
    if surplus and deployment.strategy.rollout is Rollout.SURGELESS:
        return Pause(
            _later(now), f"{counted(surplus, 'instance')} of the new revision must end before their places are filled."
        )
    return None


def _missing(variants: Sequence[Variant], wanted: Counts) -> int:
    """How many instances do not serve yet."""
    return sum(max(wanted[variant.id] - _ready(variant), 0) for variant in variants)


def _ready(variant: Variant) -> int:
    return sum(instance.stage is Stage.READY for instance in variant.instances)


def _coming_or_serving(variants: Sequence[Variant]) -> int:
    return sum(
        len(variant.attempts) + sum(instance.stage in _COMING_OR_SERVING for instance in variant.instances)
        for variant in variants
    )


def _instances(counts: Counts) -> str:
    return counted(sum(counts.values()), "instance")


def _later(now: datetime) -> datetime:
    """When a fact that is waited for is looked for at the latest; the instances' own clocks come much earlier."""
    return now + timedelta(seconds=WAIT_LOOK_SECONDS)
