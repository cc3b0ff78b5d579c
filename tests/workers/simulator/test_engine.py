"""Whole simulations: what holds in every one, and what the product's mechanisms do in the weather they were made for."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from tests.workers.simulator.worlds import AWAY, HOME, Checked, group, kind, play, scenario, scenarios
from workers.fleet.actions import ResolveAttempt
from workers.fleet.plan import plan
from workers.fleet.view import Phase, Stage
from workers.simulator.engine import NOTICE_SECONDS, Simulation
from workers.simulator.report import report
from workers.simulator.scenario import HOUR, Demand, Flapping, Outage, PoolWish, Scenario, Shortage

DRY = Shortage(0.0, 4 * HOUR)


@given(scenarios())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_in_any_weather_nothing_is_doubled_lost_or_negative(played: Scenario) -> None:
    simulation = Checked(played)
    found = report(played, simulation.run())
    for figures in found.groups.values():
        for share in (figures.availability, figures.at_least_one, figures.preferred_share):
            assert share is None or 0 <= share <= 1
        assert figures.spend >= 0
        assert figures.survived <= figures.interruptions


@given(scenarios())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_once_the_weather_is_calm_every_endpoint_gets_what_it_wants(played: Scenario) -> None:
    calm = replace(
        played,
        types=tuple(replace(each, interruptions_per_day=0.0, flapping=None) for each in played.types),
        groups=tuple(
            replace(each, crashes_per_day=0.0, failed_starts=0.0, hourly_ceiling=None, demand=Demand(2, 2))
            for each in played.groups
        ),
    )
    simulation = Checked(calm)
    simulation.run()
    for subject in simulation.subjects.values():
        if subject.phase is not Phase.FAILED:
            assert subject.phase is Phase.IN_SERVICE
            assert subject.serving() == 2
            assert not subject.lost


@given(scenarios())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_an_endpoint_at_rest_has_nothing_to_do(played: Scenario) -> None:
    simulation = Checked(played)
    simulation.run()
    now = simulation.timeline.now
    for subject in simulation.subjects.values():
        is_due = subject.look_at is not None and subject.look_at <= now + timedelta(seconds=NOTICE_SECONDS)
        if not subject.is_busy and not is_due:
            decided = plan(subject.view(simulation._counter.offerings_of(subject), now), now)
            assert not [action for action in decided.actions if not isinstance(action, ResolveAttempt)]


@given(scenarios(hours=2.0, calm_from=1.5))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_seed_gives_the_same_report_byte_for_byte(played: Scenario) -> None:
    first = report(played, Simulation(played).run()).to_json()
    assert first == report(played, Simulation(played).run()).to_json()


def test_another_seed_gives_another_report() -> None:
    played = scenario(group(count=5, crashes_per_day=5.0))
    assert play(played).to_json() != play(replace(played, seed=2)).to_json()


def test_without_weather_everything_is_in_service_on_the_preferred_type() -> None:
    total = play(scenario(group(count=20))).total
    assert (total.availability, total.preferred_share, total.failed, total.refused) == (1.0, 1.0, 0, 0)
    assert total.launches == 20
    assert total.in_service_max is not None
    assert 60 < total.in_service_max < 120


def test_one_refusal_spares_all_other_endpoints_the_question() -> None:
    types = (kind(HOME, shortages=(DRY,)), kind(AWAY))
    total = play(scenario(group(count=200, created_over=3 * HOUR), types=types, hours=4)).total
    # A mark of 5 minutes, doubling to 30: 3 hours have room for fewer than 12 of them, in one zone.
    assert total.refused <= 12
    assert total.wasted == 0
    assert total.availability == 1.0


def test_without_a_memory_to_speak_of_every_launch_asks_in_vain() -> None:
    types = (kind(HOME, shortages=(DRY,)), kind(AWAY))
    played = scenario(group(count=200, created_over=3 * HOUR), types=types, hours=4, mark_seconds=1.0)
    forgetful = play(replace(played, mark_seconds=1.0)).total.refused
    assert forgetful > play(replace(played, mark_seconds=300.0)).total.refused


def test_coming_home_raises_the_share_of_the_preferred_type() -> None:
    types = (kind(HOME, shortages=(DRY,)), kind(AWAY))
    stays = play(scenario(group(count=4), types=types, hours=24)).total
    home = play(scenario(group(count=4, home_after_seconds=600.0), types=types, hours=24)).total
    assert stays.preferred_share == 0.0
    assert home.preferred_share is not None
    assert home.preferred_share > 0.6
    assert home.moves == 4
    assert home.availability == 1.0, "a replacement serves before a fallback goes"


def test_no_more_instances_come_home_at_once_than_the_budget_allows() -> None:
    types = (kind(HOME, shortages=(DRY,)), kind(AWAY))
    facts = {"types": types, "hours": 6.0, "hold_down_seconds": 60.0}
    wide = play(scenario(group(count=30, home_after_seconds=60.0), coming_home_budget=30, **facts)).total
    narrow = play(scenario(group(count=30, home_after_seconds=60.0), coming_home_budget=1, **facts)).total
    assert (wide.moves, wide.preferred_share) > (narrow.moves, narrow.preferred_share)


def test_a_ceiling_keeps_a_dear_fallback_out() -> None:
    types = (kind(HOME, price=1.0, shortages=(Shortage(0.0, 1200.0),)), kind(AWAY, price=40.0))
    free = play(scenario(group(), types=types)).total
    capped = play(scenario(group(hourly_ceiling=10.0), types=types)).total
    assert AWAY in free.spend_by_type
    assert AWAY not in capped.spend_by_type
    assert capped.preferred_share == 1.0


def test_patience_waits_for_the_preferred_type_and_no_longer() -> None:
    pools = (PoolWish(HOME, 1), PoolWish(AWAY, 2, 900.0))
    short, long = (kind(HOME, shortages=(Shortage(0.0, seconds),)) for seconds in (240.0, 7200.0))
    soon = play(scenario(group(pools=pools), types=(short, kind(AWAY)))).total
    late = play(scenario(group(pools=pools), types=(long, kind(AWAY)))).total
    assert (soon.preferred_share, late.preferred_share) == (1.0, 0.0)
    assert late.in_service_max is not None
    assert 900 < late.in_service_max < 1100


def test_a_creation_that_finds_no_capacity_fails_when_its_budget_ends() -> None:
    types = (kind(HOME, slots=0), kind(AWAY, slots=0))
    simulation = Checked(scenario(group(provision_seconds=600.0), types=types, hours=2))
    total = report(simulation.scenario, simulation.run()).total
    assert (total.failed, total.availability, total.in_service_p50) == (1, 0.0, None)
    assert simulation.subjects["g"].phase is Phase.FAILED


def test_a_change_that_finds_no_capacity_is_undone_and_asked_for_again() -> None:
    types = (kind(HOME, slots=2),)
    demand = Demand(1, 6, peak_hour=12.0, step_seconds=600.0)
    total = play(scenario(group("g", HOME, demand=demand, provision_seconds=300.0), types=types)).total
    assert total.rolled_back > 1
    assert total.at_least_one == 1.0


def test_an_announced_end_is_survived_where_another_instance_serves() -> None:
    types = (kind(HOME, interruptions_per_day=10.0), kind(AWAY))
    facts = {"count": 10, "demand": Demand(3, 3), "markets": ("spot", "on-demand")}
    total = play(scenario(group(**facts), types=types, hours=24)).total
    assert total.interruptions >= 10
    assert total.survived == total.interruptions
    assert total.at_least_one == 1.0


def test_a_market_that_shrinks_takes_its_instances_back() -> None:
    types = (kind(HOME, shortages=(Shortage(HOUR, 2 * HOUR, 1, market="spot"),)), kind(AWAY))
    total = play(scenario(group(demand=Demand(3, 3), markets=("spot", "on-demand")), types=types)).total
    assert total.interruptions == 2
    assert total.preferred_share == 1.0, "the same type on demand comes before another type"


@pytest.mark.parametrize("kind_of_outage", ["throttled", "ambiguous"])
def test_an_outage_of_the_provider_ends_with_every_endpoint_served_once(kind_of_outage: str) -> None:
    outage = Outage(0.0, 900.0, kind_of_outage)
    simulation = Checked(scenario(group(count=30), hours=2, outages=(outage,)))
    total = report(simulation.scenario, simulation.run()).total
    assert total.failed == 0
    assert (total.throttled > 30) is (kind_of_outage == "throttled")
    assert (total.lost >= 30) is (kind_of_outage == "ambiguous")
    for subject in simulation.subjects.values():
        assert [machine.row.stage for machine in subject.machines.values()] == [Stage.READY]


def test_lost_launches_are_asked_about_ever_more_rarely() -> None:
    outage = Outage(0.0, 1500.0, "ambiguous", happened=0.5)
    total = play(scenario(group(count=10), hours=1, outages=(outage,))).total
    # After 1, 2, 3, 5, ... seconds, then once a minute: some 35 questions each in 25 minutes, not 600.
    assert total.lost < 10 * 45


def test_what_crashes_is_replaced() -> None:
    simulation = Checked(scenario(group(count=10, demand=Demand(2, 2), crashes_per_day=4.0), hours=24))
    total = report(simulation.scenario, simulation.run()).total
    assert total.crashes > 20
    assert total.availability is not None
    assert 0.95 < total.availability < 1.0


def test_a_model_that_never_starts_fails_its_creation() -> None:
    total = play(scenario(group(failed_starts=1.0), hours=1)).total
    assert (total.failed, total.launches) == (1, 3)


def test_a_flapping_type_is_asked_a_few_times_for_each_dry_spell() -> None:
    types = (kind(HOME, flapping=Flapping(3600.0, 1800.0)), kind(AWAY))
    demand = Demand(1, 5, peak_hour=6.0, noise=0.2, step_seconds=600.0)
    total = play(scenario(group(count=10, demand=demand), types=types, hours=24)).total
    assert total.refused < total.launches / 4
    assert total.wasted == 0


def test_progress_is_told_in_order() -> None:
    told: list[float] = []
    Simulation(scenario(group(count=20, crashes_per_day=24.0), hours=24)).run(lambda share, events: told.append(share))
    assert len(told) > 1
    assert told == sorted(told)
    assert all(0 <= share <= 1 for share in told)
