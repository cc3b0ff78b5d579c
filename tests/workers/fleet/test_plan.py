"""The fleet planner over worlds of every kind: what it may never do, and where it comes to rest."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.offerings import Mark, Offering, is_closed, preference
from tests.workers.fleet.worlds import (
    LIVE,
    NOW,
    SERVING_PHASES,
    ZONE,
    Model,
    ago,
    closed,
    endpoint,
    endpoints,
    half_open,
    instance,
    opened,
    pool,
    variant,
    variants,
)
from workers.fleet import actions as do
from workers.fleet.plan import NO_CAPACITY, START_FAILURES_LIMIT, plan, plan_variant
from workers.fleet.scale_in import victims
from workers.fleet.upkeep import action_for
from workers.fleet.view import Attempt, Endpoint, Phase, Sighting, Stage, Variant

ATTEMPT = Attempt("t", pool(), ZONE, ago(30))
OVERDUE = {"provision_deadline": NOW}


def over(*strategies: st.SearchStrategy) -> Callable[[Callable], Callable]:
    """A property over worlds; a world has many parts, so fewer of them go round, without a time limit for each."""
    return lambda test: settings(max_examples=50, deadline=None)(given(*strategies)(test))


def of(kind: type, decided: do.Plan) -> list:
    """The plan's actions of one kind."""
    return [action for action in decided.actions if isinstance(action, kind)]


def kept(row: Variant) -> int:
    """Instances that live and that this round does not end."""
    ended = (do.Terminate, do.ForgetInstance)
    return sum(each.stage in LIVE and not isinstance(action_for(row, each, NOW), ended) for each in row.instances)


# What it may never do.


@over(endpoints())
def test_never_launches_more_than_is_wanted(world: Endpoint) -> None:
    for launch in of(do.Launch, plan(world, NOW)):
        row = launch.variant
        assert 1 <= launch.count <= row.desired_count - kept(row) - len(row.attempts)


@over(endpoints())
def test_launches_only_for_endpoints_that_are_to_serve_and_have_not_given_up(world: Endpoint) -> None:
    decided = plan(world, NOW)
    if of(do.Launch, decided):
        assert world.phase in SERVING_PHASES
        assert not of(do.GiveUp, decided)


@over(endpoints())
def test_an_endpoint_gives_up_once_and_last_and_only_while_an_operation_runs(world: Endpoint) -> None:
    decided = plan(world, NOW)
    given_up = of(do.GiveUp, decided)
    assert len(given_up) <= 1
    if given_up:
        assert decided.actions[-1] is given_up[0]
        assert world.phase in (Phase.CREATING, Phase.UPDATING)


@over(endpoints())
def test_every_action_and_every_plan_has_a_sentence(world: Endpoint) -> None:
    decided = plan(world, NOW)
    assert decided.why.endswith(".")
    assert all(action.why.strip() for action in decided.actions)


@over(endpoints())
def test_an_instance_is_told_one_thing_in_a_plan(world: Endpoint) -> None:
    named = [action.instance.id for action in plan(world, NOW).actions if hasattr(action, "instance")]
    assert len(named) == len(set(named))


@over(endpoints())
def test_a_plan_without_actions_looks_again_later_and_not_at_once(world: Endpoint) -> None:
    decided = plan(world, NOW)
    assert decided.actions or decided.look_again_at > NOW


@over(endpoints(SERVING_PHASES))
def test_never_sends_away_more_than_the_surplus(world: Endpoint) -> None:
    decided = plan(world, NOW)
    for row in world.variants:
        ends = [a for a in of(do.Drain, decided) + of(do.Terminate, decided) if a.variant == row]
        unneeded = [action for action in ends if "no longer needed" in action.why]
        assert len(unneeded) == max(kept(row) - row.desired_count, 0)


@over(endpoints())
def test_an_instance_that_serves_is_drained_before_it_is_ended_for_being_surplus(world: Endpoint) -> None:
    for action in of(do.Terminate, plan(world, NOW)):
        if "no longer needed" in action.why:
            assert action.instance.stage in (Stage.PENDING, Stage.STARTING)


@over(endpoints((Phase.DELETING,)), st.booleans())
def test_a_deletion_needs_no_offerings(world: Endpoint, has_none: bool) -> None:
    rows = tuple(replace(each, offerings=() if has_none else each.offerings) for each in world.variants)
    decided = plan(replace(world, variants=rows), NOW)
    ended = {action.instance.id for action in decided.actions if isinstance(action, do.Terminate | do.ForgetInstance)}
    alive = {each.id for row in rows for each in row.instances if each.stage is not Stage.TERMINATING}
    assert alive <= ended
    assert not of(do.Launch, decided)
    assert all(not action.is_wanted for action in of(do.ResolveAttempt, decided))


@over(endpoints((Phase.DELETING,)))
def test_rows_go_only_when_nothing_is_left(world: Endpoint) -> None:
    has_rest = any(row.instances or row.attempts for row in world.variants)
    assert bool(of(do.RemoveEndpoint, plan(world, NOW))) is not has_rest


# Which pool it asks.


@over(variants(), st.sampled_from(SERVING_PHASES))
def test_the_most_wanted_pool_that_is_open_wins(row: Variant, phase: Phase) -> None:
    for launch in of(do.Launch, plan_variant(row, phase, NOW)):
        is_open = [each for each in row.offerings if not is_closed(each, NOW)]
        if is_open:
            assert launch.offering == min(is_open, key=lambda each: preference(each.pool))


@over(variants(), st.sampled_from(SERVING_PHASES))
def test_marks_alone_never_keep_a_launch_from_being_asked(row: Variant, phase: Phase) -> None:
    holds = Mark("capacity", "no room", ago(10), NOW + timedelta(hours=1), "another")
    all_marked = replace(row, offerings=tuple(replace(each, mark=holds) for each in row.offerings), launch_not_before=None)
    decided = plan_variant(all_marked, phase, NOW)
    is_short = row.desired_count - kept(row) - len(row.attempts) > 0
    ends = of(do.Terminate, decided) + of(do.ForgetInstance, decided)
    # What an end means for the pace of launches is seen in the next round, once it is stored.
    if is_short and not any(each.start_failure or each.instance.stage is Stage.READY for each in ends):
        assert of(do.Launch, decided) or of(do.GiveUp, decided)


def test_when_all_are_marked_the_one_refused_longest_ago_is_asked() -> None:
    row = variant(2, closed(0, marked=10), closed(1, marked=90), closed(2, marked=50))
    (launch,) = of(do.Launch, plan(endpoint(row), NOW))
    assert launch.offering.pool == pool(1)
    assert launch.count == 2
    assert not launch.is_probe


def test_a_mark_that_has_run_out_is_probed_by_one_instance_only() -> None:
    (launch,) = of(do.Launch, plan(endpoint(variant(3, half_open(0), opened(1))), NOW))
    assert (launch.offering.pool, launch.count, launch.is_probe) == (pool(0), 1, True)


def test_a_pool_that_somebody_probes_is_passed_over_and_the_sentence_says_so() -> None:
    (launch,) = of(do.Launch, plan(endpoint(variant(3, half_open(0, is_probed=True), opened(1))), NOW))
    assert (launch.offering.pool, launch.count, launch.is_probe) == (pool(1), 3, False)
    assert "ml.t0.large skipped while another launch probes it" in launch.why


def test_equal_priorities_go_by_their_place_in_the_list() -> None:
    row = variant(1, Offering(pool(1, priority=1), ZONE), Offering(pool(0, priority=1), ZONE))
    (launch,) = of(do.Launch, plan(endpoint(row), NOW))
    assert launch.offering.pool.position == 0


def test_waits_for_the_back_off_and_says_until_when() -> None:
    again = NOW + timedelta(seconds=20)
    decided = plan(endpoint(variant(1, launch_not_before=again)), NOW)
    assert decided.actions == ()
    assert decided.look_again_at == again
    assert "tries again at 12:00:20" in decided.why


# Who goes.


def test_scale_in_takes_the_unready_then_the_fallbacks_then_the_idle_then_the_newest() -> None:
    order = [
        instance("booting", Stage.PENDING),
        instance("starting", Stage.STARTING),
        instance("fallback-2", place=2, in_flight=9),
        instance("fallback-1-idle", place=1, in_flight=0),
        instance("fallback-1-busy", place=1, in_flight=4),
        instance("new", age=10, in_flight=1),
        instance("old", age=90, in_flight=1),
    ]
    shuffled = random.Random(7).sample(order, len(order))
    assert [each.id for each in victims(tuple(shuffled), 99)] == [each.id for each in order]


def test_scale_in_to_none_drains_what_serves_and_ends_what_does_not() -> None:
    row = variant(0, instances=(instance("serves"), instance("boots", Stage.PENDING, sighting=Sighting.PENDING)))
    decided = plan(endpoint(row, phase=Phase.UPDATING), NOW)
    assert [action.instance.id for action in of(do.Drain, decided)] == ["serves"]
    assert [action.instance.id for action in of(do.Terminate, decided)] == ["boots"]


def test_a_launch_of_unknown_outcome_costs_no_serving_instance_its_place() -> None:
    row = variant(1, instances=(instance("serves", is_healthy=True),), attempts=(ATTEMPT,))
    (action,) = plan(endpoint(row), NOW).actions
    assert isinstance(action, do.ResolveAttempt)
    assert not action.is_wanted


def test_of_two_lost_launches_only_as_many_as_are_missing_are_repeated() -> None:
    lost = (ATTEMPT, replace(ATTEMPT, token="u"))
    decided = plan(endpoint(variant(1, attempts=lost)), NOW)
    assert [action.is_wanted for action in of(do.ResolveAttempt, decided)] == [True, False]


# When it gives up.


@pytest.mark.parametrize("phase", [Phase.CREATING, Phase.UPDATING])
def test_gives_up_at_the_deadline_with_the_text_of_a_shortage(phase: Phase) -> None:
    (action,) = plan(endpoint(variant(1, **OVERDUE), phase=phase), NOW).actions
    assert isinstance(action, do.GiveUp)
    assert action.why == NO_CAPACITY
    assert "InsufficientInstanceCapacity" in action.why


@pytest.mark.parametrize("phase", [Phase.IN_SERVICE, Phase.ROLLING_BACK])
def test_without_a_running_operation_no_deadline_counts(phase: Phase) -> None:
    row = variant(1, launch_not_before=NOW + timedelta(seconds=9), **OVERDUE)
    decided = plan(endpoint(row, phase=phase), NOW)
    assert not of(do.GiveUp, decided)
    assert decided.look_again_at == NOW + timedelta(seconds=9) or of(do.EnterService, decided)


def test_a_back_off_ends_at_the_deadline() -> None:
    deadline, later = NOW + timedelta(seconds=3), NOW + timedelta(seconds=60)
    row = variant(1, provision_deadline=deadline, launch_not_before=later)
    assert plan(endpoint(row, phase=Phase.CREATING), NOW).look_again_at == deadline


def test_an_instance_that_boots_at_the_deadline_is_given_its_own_time() -> None:
    row = variant(1, instances=(instance("i", Stage.STARTING, is_healthy=False),), **OVERDUE)
    assert plan(endpoint(row, phase=Phase.CREATING), NOW).actions == ()


def test_after_the_deadline_a_lost_launch_is_looked_for_and_not_repeated() -> None:
    decided = plan(endpoint(variant(1, attempts=(ATTEMPT,), **OVERDUE), phase=Phase.CREATING), NOW)
    assert [action.is_wanted for action in of(do.ResolveAttempt, decided)] == [False]


def test_two_variants_out_of_time_fail_the_endpoint_once() -> None:
    rows = (variant(1, **OVERDUE), replace(variant(1, **OVERDUE), id=2, name="w"))
    (action,) = plan(endpoint(*rows, phase=Phase.CREATING), NOW).actions
    assert isinstance(action, do.GiveUp)


def test_gives_up_after_starts_that_failed_in_a_row_with_the_last_reason() -> None:
    row = variant(1, start_failures=START_FAILURES_LIMIT, start_failure_reason="It exited.")
    (action,) = plan(endpoint(row, phase=Phase.CREATING), NOW).actions
    assert isinstance(action, do.GiveUp)
    assert action.why == "It exited."


def test_in_service_failed_starts_never_end_the_healing() -> None:
    row = variant(1, start_failures=9, start_failure_reason="It exited.")
    assert of(do.Launch, plan(endpoint(row), NOW))


def test_a_failed_start_is_counted_before_the_next_launch() -> None:
    facts = {"sighting": Sighting.EXITED, "detail": "exited with code 3", "failure": "container_exited"}
    exited = instance("i", Stage.STARTING, **facts)
    (action,) = plan(endpoint(variant(1, instances=(exited,)), phase=Phase.CREATING), NOW).actions
    assert isinstance(action, do.Terminate)
    assert action.start_failure is not None
    assert "exited with code 3" in action.start_failure.reason


# When it is done.


def test_enters_service_once_everything_wanted_serves() -> None:
    row = variant(2, instances=(instance("a"), instance("b", place=1)))
    (action,) = plan(endpoint(row, phase=Phase.CREATING), NOW).actions
    assert isinstance(action, do.EnterService)
    assert action.why == "in service: v on 1 x ml.t0.large, 1 x ml.t1.large"


def test_one_variant_that_is_short_keeps_the_endpoint_out_of_service() -> None:
    short = replace(variant(1, launch_not_before=NOW + timedelta(seconds=9)), id=2)
    decided = plan(endpoint(variant(1, instances=(instance(),)), short, phase=Phase.CREATING), NOW)
    assert decided.actions == ()


def test_a_roll_back_ends_though_an_instance_is_missing() -> None:
    row = variant(1, launch_not_before=NOW + timedelta(seconds=9))
    (action,) = plan(endpoint(row, phase=Phase.ROLLING_BACK), NOW).actions
    assert isinstance(action, do.EnterService)


# Where it comes to rest.

_rooms = st.dictionaries(st.sampled_from([pool(place).instance_type for place in range(5)]), st.integers(0, 4))


@over(endpoints(), _rooms, st.booleans())
def test_carrying_plans_out_comes_to_rest_without_time_passing(world: Endpoint, room: dict, all_happened: bool) -> None:
    tokens = frozenset(each.token for row in world.variants for each in row.attempts) if all_happened else frozenset()
    model = Model(world, room, tokens)
    for _ in range(64):
        decided = plan(model.endpoint, NOW) if model.endpoint.variants else None
        if decided is None or not decided.actions:
            return
        model.apply(decided, NOW)
    pytest.fail(f"never comes to rest: {decided}")


@over(endpoints(SERVING_PHASES), _rooms)
def test_with_room_and_time_every_endpoint_ends_up_as_wanted(world: Endpoint, room: dict) -> None:
    budget = NOW + timedelta(seconds=60)
    rows = tuple(replace(each, provision_deadline=each.provision_deadline or budget) for each in world.variants)
    plenty = {pool(place).instance_type: 99 for place in range(3)}
    model, now = Model(replace(world, variants=rows), plenty | room), NOW
    for _ in range(60):
        model.observe()
        decided = plan(model.endpoint, now)
        model.apply(decided, now)
        now = max(decided.look_again_at, now + timedelta(seconds=1))
    if model.endpoint.phase is Phase.FAILED:
        assert not any(row.instances for row in model.endpoint.variants)
        return
    expected = Phase.IN_SERVICE if world.phase is not Phase.UPDATE_ROLLBACK_FAILED else world.phase
    assert model.endpoint.phase is expected
    for row in model.endpoint.variants:
        has_room = any(room.get(each.pool.instance_type, 99) == 99 for each in row.offerings)
        serving = sum(each.stage is Stage.READY for each in row.instances)
        assert serving == row.desired_count if has_room else serving <= row.desired_count


@over(endpoints())
def test_a_deletion_always_reaches_its_end(world: Endpoint) -> None:
    model = Model(replace(world, phase=Phase.DELETING))
    for _ in range(10):
        model.observe()
        decided = plan(model.endpoint, NOW)
        model.apply(decided, NOW)
        if not model.endpoint.variants:
            return
    pytest.fail(f"never ends: {decided}")


def test_shrinking_leaves_the_instances_of_the_most_wanted_pool() -> None:
    rows = tuple(instance(f"i-{place}-{n}", place=place) for place in range(3) for n in range(2))
    model = Model(endpoint(variant(2, opened(0), opened(1), opened(2), instances=rows), phase=Phase.UPDATING))
    for _ in range(6):
        model.observe()
        model.apply(plan(model.endpoint, NOW), NOW)
    assert model.endpoint.phase is Phase.IN_SERVICE
    assert [each.pool.position for each in model.variant(1).instances] == [0, 0]
