"""The runaway guard: a fleet that cannot get well costs a bounded number of launches, and is no capacity problem."""

from collections.abc import Callable

import pytest

from tests.crash.conftest import MakeRig
from tests.crash.rig import Rig
from tests.crash.scenarios import world_of
from tests.crash.sites import SimulatedSite
from tests.workers.plane import FIRST

MINUTES_5 = 300.0
WANTED = 2
LAUNCHES_LIMIT = 10 * WANTED
"""Five minutes of the back-off's longest wait (60 s) and its way there, for each instance that is wanted."""


def _all_sick(site: SimulatedSite) -> None:
    """No /ping is answered any more."""
    site.world.set_knob("is_sick", 1)


def _exit_at_start(site: SimulatedSite) -> None:
    """What serves dies, and nothing that is launched ever runs."""
    site.world.set_knob("exit_at_start", 10_000)
    _kill_all(site)


def _kill_all(site: SimulatedSite) -> None:
    """Whatever runs dies: the model answers its first /ping and crashes at its first call."""
    for each in site.real():
        site.kill(each.provider_id)


EVILS: dict[str, tuple[Callable[[SimulatedSite], None], Callable[[SimulatedSite], None]]] = {
    "every-ping-fails": (_all_sick, lambda site: None),
    "nothing-starts": (_exit_at_start, lambda site: None),
}


def _served(make_rig: MakeRig, site: SimulatedSite) -> Rig:
    rig = make_rig(site)
    with rig.process():
        rig.configure("e", count=WANTED)
        rig.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
        rig.run(rig.is_quiet, 60)
    return rig


def _assert_bounded(rig: Rig) -> None:
    asked = {call.instance_type for call in world_of(rig).calls()}
    assert asked == {FIRST}, "the pools were walked"
    assert rig.ledger.launched() <= LAUNCHES_LIMIT


@pytest.mark.parametrize("evil", EVILS)
def test_five_minutes_of_illness_cost_few_launches_and_no_walk(make_rig: MakeRig, evil: str) -> None:
    site = SimulatedSite()
    rig = _served(make_rig, site)
    begin, go_on = EVILS[evil]
    with rig.process():
        begin(site)
        rig.meanwhile = lambda: go_on(site)
        rig.idle(MINUTES_5)
    print(f"{evil}: {rig.ledger.launched()} launches")
    _assert_bounded(rig)


def test_a_model_that_dies_as_soon_as_it_serves_is_started_ever_more_rarely(make_rig: MakeRig) -> None:
    """It passes its health check every time, so nothing but the shortness of its life tells that it is broken."""
    site = SimulatedSite()
    rig = _served(make_rig, site)

    def kill_what_serves() -> None:
        if rig.counts()[FIRST]:
            _kill_all(site)

    with rig.process():
        rig.meanwhile = kill_what_serves
        rig.idle(MINUTES_5)
    print(f"dies as soon as it serves: {rig.ledger.launched()} launches")
    _assert_bounded(rig)


def test_a_model_that_flaps_between_well_and_sick_is_started_ever_more_rarely(make_rig: MakeRig) -> None:
    site = SimulatedSite()
    rig = _served(make_rig, site)

    def flap() -> None:
        site.world.set_knob("is_sick", 1 if rig.counts()[FIRST] else 0)

    with rig.process():
        rig.meanwhile = flap
        rig.idle(MINUTES_5)
    print(f"flaps: {rig.ledger.launched()} launches")
    _assert_bounded(rig)


def test_one_death_in_a_long_life_is_replaced_at_once(make_rig: MakeRig) -> None:
    """The other side of the guard: it must not slow down the healing of what was well for long."""
    site = SimulatedSite()
    rig = _served(make_rig, site)
    with rig.process():
        rig.idle(900)
        victim = next(iter(site.real())).provider_id
        rig.doomed.add(victim)
        site.kill(victim)
        assert rig.run(rig.is_quiet, 60) <= 10
