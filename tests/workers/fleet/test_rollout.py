"""The steps of a deployment and the machine that walks them; pure."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.fleet.worlds import NOW, ago, instance
from workers.fleet.actions import Advance, EndRollback, FinishDeployment, RollBack
from workers.fleet.rollout import ACTIVATION_SECONDS, Pause, next_move, roll_back, steps, steps_back, turn_back
from workers.fleet.view import (
    Deployment,
    DeploymentStage,
    Endpoint,
    Phase,
    Rollout,
    Size,
    SizeUnit,
    Stage,
    Strategy,
    Variant,
)

OLD, NEW = 1, 2


def percent(value: int) -> Size:
    """A size in percent."""
    return Size(SizeUnit.CAPACITY_PERCENT, value)


def fleet(revision: int, *counts: int) -> list[Variant]:
    """Variants of a revision with these full counts; the old ones want them, the new ones nothing yet."""
    return [
        Variant(
            revision * 100 + place, f"v{place}", count if revision == OLD else 0, (), revision=revision, full_count=count
        )
        for place, count in enumerate(counts)
    ]


PLAIN = Strategy()


def deployment(strategy: Strategy = PLAIN, stage: str = "pending", **facts: object) -> Deployment:
    """A deployment to the new revision."""
    return Deployment(NEW, DeploymentStage(stage), NOW, strategy=strategy, **facts)


def counts_of(variants: list[Variant], counts: dict[int, int]) -> list[int]:
    """The counts in the order of the variants."""
    return [counts[variant.id] for variant in variants]


sizes = st.builds(percent, st.integers(5, 100)) | st.builds(Size, st.just(SizeUnit.INSTANCE_COUNT), st.integers(1, 12))
strategies = st.builds(
    Strategy, st.sampled_from(Rollout), sizes, sizes, st.sampled_from([0.0, 60.0]), st.sampled_from([0.0, 60.0])
)
fleets = st.lists(st.integers(0, 9), min_size=1, max_size=3)


@given(strategies, fleets, fleets)
def test_steps_grow_the_new_fleet_shrink_the_old_one_and_end_with_every_call_on_the_new(
    strategy: Strategy, new_counts: list[int], old_counts: list[int]
) -> None:
    new, old = fleet(NEW, *new_counts), fleet(OLD, *old_counts)
    found = steps(strategy, new, old)
    assert found
    assert found[-1].share == 1.0
    assert counts_of(new, found[-1].new) == new_counts
    for before, after in pairwise(found):
        assert before.share < after.share
        assert all(before.new[key] <= after.new[key] for key in before.new)
        assert all(before.old[key] >= after.old[key] for key in before.old)


@given(strategies, fleets, fleets)
def test_in_no_step_are_calls_shifted_away_from_more_of_the_old_fleet_than_the_new_one_takes(
    strategy: Strategy, new_counts: list[int], old_counts: list[int]
) -> None:
    new, old = fleet(NEW, *new_counts), fleet(OLD, *old_counts)
    for step in steps(strategy, new, old):
        for variant in old:
            assert step.old[variant.id] >= variant.full_count * (1 - step.share) - 1e-6


@given(strategies, fleets, fleets, st.integers(1, 30))
def test_steps_back_end_with_the_old_fleet_alone(
    strategy: Strategy, new_counts: list[int], old_counts: list[int], reached: int
) -> None:
    new, old = fleet(NEW, *new_counts), fleet(OLD, *old_counts)
    reached = min(reached, len(steps(strategy, new, old)))
    back = steps_back(deployment(strategy, "rolling back", rolled_back_from=reached), new, old)
    assert back[-1].share == 0.0
    assert counts_of(old, back[-1].old) == old_counts
    assert not any(back[-1].new.values())
    for before, after in pairwise(back):
        assert all(before.new[key] >= after.new[key] for key in before.new)
        assert all(before.old[key] <= after.old[key] for key in before.old)


@pytest.mark.parametrize(
    ("rollout", "size", "shares", "left"),
    [
        (Rollout.ALL_AT_ONCE, percent(100), [1.0], [4]),
        (Rollout.CANARY, percent(10), [0.1, 1.0], [4, 4]),
        (Rollout.CANARY, Size(SizeUnit.INSTANCE_COUNT, 1), [0.25, 1.0], [4, 4]),
        (Rollout.LINEAR, percent(50), [0.5, 1.0], [4, 2]),
        (Rollout.LINEAR, percent(30), [0.3, 0.6, 0.9, 1.0], [4, 3, 2, 1]),
        (Rollout.ROLLING, percent(50), [0.5, 1.0], [2, 0]),
        (Rollout.ROLLING, percent(33), [0.25, 0.5, 0.75, 1.0], [3, 2, 1, 0]),
    ],
)
def test_the_steps_of_a_fleet_of_four(rollout: Rollout, size: Size, shares: list[float], left: list[int]) -> None:
    found = steps(Strategy(rollout, size), fleet(NEW, 4), fleet(OLD, 4))
    assert [round(step.share, 6) for step in found] == shares
    assert [step.old[100] for step in found] == left


def test_a_third_of_three_instances_is_one() -> None:
    found = steps(Strategy(Rollout.ROLLING, percent(33)), fleet(NEW, 3), fleet(OLD, 3))
    assert [step.new[200] for step in found] == [1, 2, 3]


def test_alarms_count_only_while_the_new_revision_gets_calls() -> None:
    ringing = deployment(stage="baking", alarms=("high errors",))
    assert turn_back(ringing, NOW) is None
    turn = turn_back(replace(ringing, share=0.1), NOW)
    assert turn is not None
    assert "high errors" in turn.reason
    assert turn.share == 0.0
    for past in ("waiting", "cleaning", "rolling back"):
        assert turn_back(deployment(stage=past, share=1.0, alarms=("high errors",)), NOW) is None


def test_the_deadline_turns_back_at_its_moment() -> None:
    assert turn_back(deployment(stage="provisioning", deadline=NOW + timedelta(seconds=1)), NOW) is None
    assert turn_back(deployment(stage="provisioning", deadline=NOW), NOW) is not None


def test_a_rolling_deployment_turns_back_without_moving_the_calls_at_once() -> None:
    assert roll_back(deployment(Strategy(Rollout.ROLLING)), "because").share is None


class Walk:
    """A model of what carries moves out: instances come up, drain and go as the counts ask."""

    def __init__(self, strategy: Strategy, new: list[Variant], old: list[Variant]) -> None:
        self.deployment = deployment(strategy)
        self.variants = {variant.id: variant for variant in [*new, *old]}
        self.now = NOW
        self.most = 0
        self.least_old_share = 1.0
        self._populate()

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint as it is now."""
        return Endpoint("e", "e", Phase.UPDATING, tuple(self.variants.values()), revision=OLD, deployment=self.deployment)

    def run(self, fail_at: int | None = None) -> type:
        """Walk to the end, turning back after so many moves; the kind of the last move."""
        for number in range(500):
            if number == fail_at and self.deployment.stage not in _LATE:
                self._apply(roll_back(self.deployment, "it failed"))
                continue
            move = next_move(self.endpoint, self.deployment, self.now)
            if isinstance(move, FinishDeployment | EndRollback):
                return type(move)
            if isinstance(move, Pause):
                assert move.until > self.now, "it waits for nothing"
                self.now = min(move.until, self.now + timedelta(seconds=60))
            else:
                self._apply(move)
            self._populate()
        raise AssertionError("it never ends")

    def _apply(self, move: Advance | RollBack) -> None:
        if isinstance(move, RollBack):
            facts = {"stage": DeploymentStage.ROLLING_BACK, "step": 1, "rolled_back_from": move.step}
            counts = {}
        else:
            facts, counts = {"stage": move.stage, "step": move.step}, move.counts
        share = self.deployment.share if move.share is None else move.share
        self.deployment = replace(self.deployment, **facts, stage_since=self.now, share=share)
        for key, count in counts.items():
            self.variants[key] = replace(self.variants[key], desired_count=count)

    def _populate(self) -> None:
        """Every variant gets what it wants; the most that ever stood there is noted."""
        for key, variant in self.variants.items():
            rows = tuple(instance(f"{key}-{place}", stage=Stage.READY) for place in range(variant.desired_count))
            self.variants[key] = replace(variant, instances=rows)
        self.most = max(self.most, sum(variant.desired_count for variant in self.variants.values()))


_LATE = (DeploymentStage.WAITING, DeploymentStage.CLEANING, DeploymentStage.ROLLING_BACK)


@settings(max_examples=60, deadline=None)
@given(strategies, fleets, fleets)
def test_every_strategy_ends_with_the_new_fleet_alone(strategy: Strategy, new: list[int], old: list[int]) -> None:
    walk = Walk(strategy, fleet(NEW, *new), fleet(OLD, *old))
    assert walk.run() is FinishDeployment
    wanted = {key: variant.desired_count for key, variant in walk.variants.items()}
    assert [wanted[200 + place] for place in range(len(new))] == new
    assert not any(wanted[100 + place] for place in range(len(old)))
    assert walk.deployment.share == 1.0
    if strategy.rollout is Rollout.SURGELESS:
        assert walk.most <= max(sum(old), sum(new), *(sum(new) + sum(old) - 1, 0)) or not sum(old)
    assert walk.most <= sum(new) + sum(old)


@settings(max_examples=60, deadline=None)
@given(strategies, fleets, fleets, st.integers(1, 12))
def test_every_strategy_that_fails_ends_with_one_fleet_alone(
    strategy: Strategy, new: list[int], old: list[int], fail_at: int
) -> None:
    walk = Walk(strategy, fleet(NEW, *new), fleet(OLD, *old))
    end = walk.run(fail_at)
    wanted = {key: variant.desired_count for key, variant in walk.variants.items()}
    if end is EndRollback:
        assert [wanted[100 + place] for place in range(len(old))] == old
        assert not any(wanted[200 + place] for place in range(len(new)))
        assert walk.deployment.share == 0.0
    else:
        assert [wanted[200 + place] for place in range(len(new))] == new


@given(st.integers(1, 9), st.integers(5, 50))
def test_a_surgeless_update_of_equal_fleets_never_has_more_than_the_fleet(count: int, size: int) -> None:
    walk = Walk(Strategy(Rollout.SURGELESS, percent(size)), fleet(NEW, count), fleet(OLD, count))
    walk.run()
    assert walk.most <= count


def test_a_shift_is_given_time_to_arrive_before_it_bakes() -> None:
    at = replace(deployment(stage="activating", share=0.5), stage_since=ago(ACTIVATION_SECONDS / 2))
    endpoint = Endpoint("e", "e", Phase.UPDATING, (*fleet(NEW, 1), *fleet(OLD, 1)), deployment=at)
    assert isinstance(next_move(endpoint, at, NOW), Pause)
    move = next_move(endpoint, at, NOW + timedelta(seconds=ACTIVATION_SECONDS))
    assert isinstance(move, Advance)
    assert move.stage is DeploymentStage.BAKING
