"""Sleeping until something can have changed: it must miss nothing that a look every few seconds would see.

The same worlds are played twice: once with every look that the planner asks for, as the product looks, and once asleep
in between. Both see a change at a slightly different moment, so figures are compared within what that moment can make.
"""

from dataclasses import replace

import pytest

from tests.workers.simulator.worlds import AWAY, HOME, Checked, group, kind, scenario
from workers.simulator.engine import Simulation
from workers.simulator.report import Figures, report
from workers.simulator.scenario import HOUR, Demand, Flapping, Outage, PoolWish, Scenario, Shortage

DRY_EARLY = (kind(HOME, shortages=(Shortage(0.0, 2 * HOUR),)), kind(AWAY))
PATIENT = (PoolWish(HOME, 1), PoolWish(AWAY, 2, 900.0))

WORLDS = {
    "calm": scenario(group(count=3), hours=1),
    "a shortage and coming home": scenario(
        group(count=2, demand=Demand(2, 2), home_after_seconds=600.0), types=DRY_EARLY, hours=6, hold_down_seconds=300.0
    ),
    "patience": scenario(group(pools=PATIENT), types=DRY_EARLY, hours=2),
    "nothing to be had": scenario(
        group(provision_seconds=900.0), types=(kind(HOME, slots=0), kind(AWAY, slots=0)), hours=1
    ),
    "a ceiling": scenario(
        group(hourly_ceiling=3.0), types=(DRY_EARLY[0], kind(AWAY, price=9.0)), hours=3, mark_seconds=600.0
    ),
    "demand": scenario(group(demand=Demand(1, 4, peak_hour=3.0, step_seconds=900.0)), hours=6),
    "spot": scenario(
        group(count=3, demand=Demand(2, 2), markets=("spot", "on-demand")),
        types=(kind(HOME, shortages=(Shortage(HOUR, 2 * HOUR, 2, market="spot"),)), kind(AWAY)),
        hours=3,
    ),
    "an outage": scenario(group(count=3), outages=(Outage(0.0, 600.0, "ambiguous", 0.5),), hours=1),
    "flapping": scenario(
        group(count=2, demand=Demand(2, 4, peak_hour=2.0, step_seconds=600.0), home_after_seconds=300.0),
        types=(kind(HOME, flapping=Flapping(1800.0, 900.0)), kind(AWAY)),
        hours=4,
        hold_down_seconds=300.0,
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_asleep_the_same_happens_as_awake(name: str) -> None:
    played = replace(WORLDS[name], seed=7)
    awake, plans_awake = _play(played, is_looking_always=True)
    asleep, plans_asleep = _play(played, is_looking_always=False)
    assert (asleep.failed, asleep.rolled_back, asleep.endpoints) == (awake.failed, awake.rolled_back, awake.endpoints)
    assert abs(asleep.launches - awake.launches) <= max(2, awake.launches * 0.1)
    assert abs(asleep.moves - awake.moves) <= 1
    assert asleep.interruptions == awake.interruptions
    assert _close(asleep.availability, awake.availability, 0.01)
    assert _close(asleep.preferred_share, awake.preferred_share, 0.05)
    assert asleep.spend == pytest.approx(awake.spend, rel=0.02, abs=0.1)
    assert _close(asleep.in_service_max, awake.in_service_max, 75.0), "a lost launch is asked about once a minute"
    assert plans_asleep <= plans_awake, "sleeping never costs more"


def test_an_endpoint_that_has_what_it_wants_costs_no_plan() -> None:
    short, long = Simulation(scenario(group(count=5), hours=1)), Simulation(scenario(group(count=5), hours=100))
    short.run()
    long.run()
    assert short.plans == long.plans


def _play(played: Scenario, *, is_looking_always: bool) -> tuple[Figures, int]:
    simulation = Checked(played, is_looking_always=is_looking_always)
    return report(played, simulation.run()).total, simulation.plans


def _close(one: float | None, other: float | None, within: float) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) <= within)
