"""Instances that an operator wants gone: the planner's rules, alone."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.fleet.worlds import LIVE, NOW, ago, closed, instance, opened, variant, variants
from workers.fleet import actions as do
from workers.fleet.plan import plan_variant
from workers.fleet.scale_in import victims
from workers.fleet.view import Instance, Leave, Phase, Stage, Variant

AT_REST = Phase.IN_SERVICE


def asked(how: Leave, name: str = "bad", stage: Stage = Stage.READY, **facts: object) -> Instance:
    """An instance that alice wants gone."""
    return instance(name, stage, leave=how, leave_asked_by="operator alice", **facts)


def planned(*instances: Instance, desired: int = 1, phase: Phase = AT_REST, **facts: object) -> do.Plan:
    """The plan for a variant of these instances."""
    return plan_variant(variant(desired, instances=instances, **facts), phase, NOW)


def sent_away(decided: do.Plan) -> list[str]:
    """Who goes in this plan."""
    return [action.instance.id for action in decided.actions if isinstance(action, do.Drain | do.Terminate)]


def launched(decided: do.Plan) -> int:
    """How many are asked for."""
    return sum(action.count for action in decided.actions if isinstance(action, do.Launch))


def test_a_drain_happens_at_once_and_a_replacement_is_asked_for_in_the_same_round() -> None:
    decided = planned(asked(Leave.DRAIN), instance("good"), desired=2)
    assert sent_away(decided) == ["bad"]
    assert launched(decided) == 1
    (drain,) = [action for action in decided.actions if isinstance(action, do.Drain)]
    assert drain.why == "ml.t0.large bad (priority 1) is drained, as operator alice asked"


def test_a_replacement_serves_before_the_instance_goes() -> None:
    bad = asked(Leave.REPLACE)
    first = planned(bad)
    assert (sent_away(first), launched(first)) == ([], 1)
    booting = planned(bad, instance("new", Stage.STARTING, age=1.0))
    assert (sent_away(booting), launched(booting)) == ([], 0)
    served = planned(bad, instance("new"))
    assert (sent_away(served), launched(served)) == (["bad"], 0)


def test_an_instance_to_be_replaced_serves_on_while_there_is_no_capacity_for_another() -> None:
    decided = plan_variant(
        variant(1, closed(0), instances=(asked(Leave.REPLACE),), launch_not_before=ago(-30.0)), AT_REST, NOW
    )
    assert decided.actions == ()
    assert "Serving until replaced: 1 more." in decided.why


@pytest.mark.parametrize("how", [Leave.DRAIN, Leave.REPLACE], ids=["drain", "replace"])
@pytest.mark.parametrize("stage", [Stage.PENDING, Stage.STARTING], ids=["pending", "starting"])
def test_what_does_not_serve_yet_is_ended_at_once(how: Leave, stage: Stage) -> None:
    decided = planned(asked(how, stage=stage, age=1.0))
    assert sent_away(decided) == ["bad"]
    assert launched(decided) == 1
    assert not any(action.start_failure for action in decided.actions if isinstance(action, do.Terminate))


@pytest.mark.parametrize("phase", [Phase.CREATING, Phase.UPDATING], ids=["creating", "updating"])
def test_a_change_that_is_being_made_is_not_put_at_risk_by_a_replacement(phase: Phase) -> None:
    decided = planned(asked(Leave.REPLACE), phase=phase, provision_deadline=ago(-600.0))
    assert (sent_away(decided), launched(decided)) == ([], 0)


def test_a_drain_does_not_wait_for_the_end_of_a_change() -> None:
    assert sent_away(planned(asked(Leave.DRAIN), phase=Phase.UPDATING, provision_deadline=ago(-600.0))) == ["bad"]


def test_scaling_in_takes_first_what_is_to_be_replaced_anyway() -> None:
    decided = planned(asked(Leave.REPLACE, age=900.0), instance("fresh", age=10.0), desired=1)
    assert (sent_away(decided), launched(decided)) == (["bad"], 0)
    assert victims((instance("a"), asked(Leave.REPLACE)), 1)[0].id == "bad"


def test_what_leaves_is_told_once_more_by_nobody() -> None:
    decided = planned(asked(Leave.DRAIN, stage=Stage.DRAINING, in_flight=2), instance("good"))
    assert decided.actions == ()


@settings(max_examples=150, deadline=None)
@given(variants(), st.data())
def test_whoever_is_asked_to_leave_the_rest_of_the_fleet_is_never_sent_away_for_it(
    world: Variant, data: st.DataObject
) -> None:
    """A replacement never takes a serving instance before the fleet is whole without it; a drain always takes it."""
    wishes = data.draw(st.lists(st.sampled_from(list(Leave)), min_size=len(world.instances), max_size=len(world.instances)))
    rows = tuple(replace(row, leave=how) for row, how in zip(world.instances, wishes, strict=True))
    asked_for = replace(world, instances=rows, short_lives=())
    decided = plan_variant(asked_for, AT_REST, NOW)
    gone = sent_away(decided)
    assert len(gone) == len(set(gone))
    drained = {action.instance.id for action in decided.actions if isinstance(action, do.Drain)}
    stayers = [row for row in rows if row.stage is Stage.READY and not row.leave and row.id not in gone]
    for row in rows:
        if row.stage in LIVE and row.leave is Leave.DRAIN and not _is_told_otherwise(row, decided):
            assert row.id in gone
        if row.id in drained and row.leave is Leave.REPLACE:
            assert len(stayers) >= min(world.desired_count, len(stayers))
            assert len(stayers) >= world.desired_count


def _is_told_otherwise(row: Instance, decided: do.Plan) -> bool:
    """Whether the round closes the row because the provider no longer has it."""
    return any(isinstance(action, do.ForgetInstance) and action.instance.id == row.id for action in decided.actions)


def test_while_coming_home_is_paused_no_move_starts_and_the_plan_says_so() -> None:
    fallback = instance("away", place=1)
    offerings = (opened(0), opened(1))
    moving = plan_variant(variant(1, *offerings, instances=(fallback,), home_after_seconds=60.0), AT_REST, NOW)
    assert launched(moving) == 1
    paused = plan_variant(
        variant(1, *offerings, instances=(fallback,), home_after_seconds=60.0, is_home_paused=True), AT_REST, NOW
    )
    assert paused.actions == ()
    assert "Coming home is paused with 1 fallback instance away." in paused.why


def test_a_paused_endpoint_that_is_home_does_not_talk_about_it() -> None:
    paused = plan_variant(
        variant(1, opened(0), instances=(instance("home"),), home_after_seconds=60.0, is_home_paused=True), AT_REST, NOW
    )
    assert "paused" not in paused.why


def test_a_move_that_is_under_way_goes_on_through_a_pause() -> None:
    fallback, mover = instance("away", place=1), instance("new", age=60.0, replaces="away")
    decided = plan_variant(
        variant(1, opened(0), opened(1), instances=(fallback, mover), home_after_seconds=60.0, is_home_paused=True),
        AT_REST,
        NOW,
    )
    assert sent_away(decided) == ["away"]
