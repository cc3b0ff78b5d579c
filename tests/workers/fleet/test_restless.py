"""Properties of the planner where instances move home, ends are announced, pools are patient and money is counted."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.offerings import Offering
from tests.workers.fleet.worlds import LIVE, NOW, ZONE, Model, ago, endpoint, instance, pool, restless_variants, variant
from workers.fleet import actions as do
from workers.fleet.homing import ARRIVAL_SECONDS
from workers.fleet.plan import plan, plan_variant
from workers.fleet.view import Attempt, Phase, Sighting, Stage, Variant

ceilings = st.none() | st.sampled_from([0.0, 2.0, 5.0, 20.0])


def over(*strategies: st.SearchStrategy) -> Callable[[Callable], Callable]:
    """A property over restless worlds."""
    return lambda test: settings(max_examples=100, deadline=None)(given(*strategies)(test))


def of(kind: type, decided: do.Plan) -> list:
    """The plan's actions of one kind."""
    return [action for action in decided.actions if isinstance(action, kind)]


def cost(row: Variant) -> float:
    """What the variant's instances and open attempts cost per hour."""
    return sum(each.hourly_price for each in row.instances) + sum(each.hourly_price for each in row.attempts)


@over(restless_variants(), ceilings)
def test_no_launch_lifts_the_cost_above_the_ceiling(row: Variant, ceiling: float | None) -> None:
    decided = plan(replace(endpoint(row), hourly_ceiling=ceiling), NOW)
    for launch in of(do.Launch, decided):
        if ceiling is not None:
            assert launch.offering.hourly_price is not None
            assert cost(row) + launch.count * launch.offering.hourly_price <= ceiling + 1e-6


@over(restless_variants())
def test_a_move_starts_only_from_a_whole_fleet_and_only_upwards(row: Variant) -> None:
    for launch in of(do.Launch, plan_variant(row, Phase.IN_SERVICE, NOW)):
        if not launch.replaces:
            continue
        assert launch.count == 1
        assert row.home_after_seconds is not None
        alive = {each.id: each for each in row.instances if each.stage in LIVE}
        assert launch.offering.pool.priority < alive[launch.replaces].pool.priority
        serving = [each for each in alive.values() if each.stage is Stage.READY and each.ends_at is None]
        assert len(serving) >= row.desired_count
        assert row.move_not_before is None or row.move_not_before <= NOW


@over(restless_variants())
def test_there_is_one_move_at_a_time(row: Variant) -> None:
    ids = {each.id for each in row.instances if each.stage in LIVE}
    is_moving = any(each.stage in (Stage.PENDING, Stage.STARTING) and each.replaces in ids for each in row.instances)
    launches = [each for each in of(do.Launch, plan_variant(row, Phase.IN_SERVICE, NOW)) if each.replaces]
    assert len(launches) <= (0 if is_moving or row.attempts else 1)


@over(restless_variants())
def test_nothing_moves_while_an_operation_or_a_deployment_runs(row: Variant) -> None:
    for phase in (Phase.CREATING, Phase.UPDATING, Phase.ROLLING_BACK):
        assert not [each for each in of(do.Launch, plan_variant(row, phase, NOW)) if each.replaces]


@over(restless_variants())
def test_what_serves_is_sent_away_only_when_enough_others_serve_or_its_end_presses(row: Variant) -> None:
    decided = plan_variant(row, Phase.IN_SERVICE, NOW)
    sent = {action.instance.id for action in of(do.Drain, decided)}
    ended = {action.instance.id for action in of(do.Terminate, decided) + of(do.ForgetInstance, decided)}
    left = [each for each in row.instances if each.stage in LIVE and each.id not in sent | ended and each.ends_at is None]
    for action in of(do.Drain, decided):
        presses = action.instance.ends_at is not None and action.instance.ends_at <= NOW + timedelta(seconds=60)
        assert presses or len(left) >= row.desired_count


@over(restless_variants())
def test_a_plan_without_actions_looks_again_later(row: Variant) -> None:
    decided = plan(endpoint(row), NOW)
    assert decided.actions or decided.look_again_at > NOW


@over(restless_variants(), st.dictionaries(st.sampled_from([pool(place).instance_type for place in range(3)]), st.just(9)))
def test_with_time_every_fleet_comes_to_rest_whole_and_without_surplus(row: Variant, room: dict[str, int]) -> None:
    model = Model(endpoint(replace(row, attempts=())), {pool(place).instance_type: 9 for place in range(3)} | room)
    now = NOW
    for _ in range(200):  # the last of five moves starts after four hold-downs
        model.observe()
        for _ in range(20):
            decided = plan(model.endpoint, now)
            if not decided.actions:
                break
            model.apply(decided, now)
        now += timedelta(seconds=60)
    (after,) = model.endpoint.variants
    ready = [each for each in after.instances if each.stage is Stage.READY]
    assert len(ready) == row.desired_count
    if row.home_after_seconds is not None and ready:
        best = min(each.pool.priority for each in row.offerings)
        assert {each.pool.priority for each in ready} == {best}, "everything is home in the end"


def moving(age: float, **facts: object) -> Variant:
    """A fallback that serves, and its replacement that has served for so long."""
    away = instance("away", place=1)
    come = replace(instance("come", place=0, age=age), replaces="away")
    offerings = (Offering(pool(0), ZONE), Offering(pool(1), ZONE))
    return replace(variant(1, *offerings, instances=(away, come), home_after_seconds=60.0), **facts)


def test_a_replacement_must_have_served_for_a_while_before_a_fallback_goes() -> None:
    assert plan_variant(moving(ARRIVAL_SECONDS - 1), Phase.IN_SERVICE, NOW).actions == ()
    drain, end = plan_variant(moving(ARRIVAL_SECONDS), Phase.IN_SERVICE, NOW).actions
    assert isinstance(drain, do.Drain)
    assert drain.instance.id == "away"
    assert isinstance(end, do.EndMove)


def test_a_replacement_whose_fallback_died_takes_its_place_at_once() -> None:
    row = moving(0.0)
    dead = replace(row.instances[0], sighting=Sighting.GONE)
    decided = plan_variant(replace(row, instances=(dead, row.instances[1])), Phase.IN_SERVICE, NOW)
    assert not of(do.Launch, decided)


def test_a_lost_move_is_asked_for_again_only_while_the_fleet_is_whole() -> None:
    attempt = Attempt("t", pool(0), ZONE, ago(30), replaces="away")
    row = replace(moving(0.0), attempts=(attempt,))
    whole = replace(row, instances=row.instances[:1])
    (resolve,) = plan_variant(whole, Phase.IN_SERVICE, NOW).actions
    assert resolve.is_wanted
