"""Capacity and demand over time."""

from datetime import timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.simulator.worlds import HOME, group, kind, scenario, scenarios
from workers.simulator.demand import wanted_at
from workers.simulator.scenario import DAY, HOUR, Demand, Flapping, Scenario, Shortage
from workers.simulator.timeline import START
from workers.simulator.weather import Key, changes


def slots_at(played: Scenario, key: Key, seconds: float) -> int:
    """What the changes leave of a key at this time."""
    at = START + timedelta(seconds=seconds)
    return [change.slots for change in changes(played, START) if change.key == key and change.at <= at][-1]


@given(scenarios())
@settings(max_examples=40, deadline=None)
def test_every_key_is_told_at_the_start_and_changes_come_in_order(played: Scenario) -> None:
    found = changes(played, START)
    keys = {(each.name, zone, market) for each in played.types for zone in played.zones for market in ("on-demand", "spot")}
    assert {change.key for change in found if change.at == START} == keys
    assert [change.at for change in found] == sorted(change.at for change in found)
    assert all(change.slots >= 0 for change in found)


def test_the_tightest_of_overlapping_shortages_holds() -> None:
    types = (
        kind(HOME, slots=9, shortages=(Shortage(0, 4 * HOUR, 5), Shortage(HOUR, 2 * HOUR, 1), Shortage(HOUR, HOUR * 3, 3))),
    )
    played = scenario(group("g", HOME), types=types)
    hours = {0.5: 5, 1.5: 1, 2.5: 3, 3.5: 5, 4.5: 9}
    assert {at: slots_at(played, (HOME, "a", "on-demand"), at * HOUR) for at in hours} == hours


def test_a_shortage_of_one_zone_or_market_leaves_the_others() -> None:
    shortages = (Shortage(0, HOUR, zones=("b",)), Shortage(0, HOUR, market="spot"))
    types = (kind(HOME, slots=9, spot_slots=9, shortages=shortages),)
    played = scenario(group("g", HOME), types=types, zones=("a", "b"))
    found = {key: slots_at(played, (HOME, *key), 60) for key in (("a", "on-demand"), ("b", "on-demand"), ("a", "spot"))}
    assert found == {("a", "on-demand"): 9, ("b", "on-demand"): 0, ("a", "spot"): 0}


def test_a_flapping_type_is_short_for_about_its_share_of_the_time() -> None:
    types = (kind(HOME, slots=5, flapping=Flapping(3600, 1800)),)
    played = scenario(group("g", HOME), types=types, hours=24 * 60)
    dry, since, before = 0.0, 0.0, 5
    for change in changes(played, START):
        if change.key == (HOME, "a", "on-demand"):
            at = (change.at - START).total_seconds()
            dry, since, before = dry + (at - since) * (before == 0), at, change.slots
    assert 0.25 < dry / played.duration < 0.42


def test_a_year_of_a_type_that_flaps_every_minute_is_drawn_soon() -> None:
    types = (kind(HOME, flapping=Flapping(60, 60)),)
    assert len(changes(scenario(group("g", HOME), types=types, hours=24 * 30), START)) > 50_000


@given(st.integers(1, 20), st.integers(0, 20), st.floats(0, 24), st.floats(0, 1), st.floats(0, 30 * DAY))
def test_demand_stays_within_its_bounds(low: int, more: int, peak: float, noise: float, at: float) -> None:
    demand = Demand(low, low + more, peak, noise)
    assert low <= wanted_at(demand, at, Random(1)) <= low + more


def test_demand_is_high_at_its_peak_and_low_half_a_day_away() -> None:
    demand = Demand(2, 10, peak_hour=14)
    assert (wanted_at(demand, 14 * HOUR, Random(1)), wanted_at(demand, 2 * HOUR, Random(1))) == (10, 2)
    assert wanted_at(demand, 3 * DAY + 14 * HOUR, Random(1)) == 10
