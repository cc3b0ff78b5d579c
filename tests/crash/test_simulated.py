"""The crash matrix over the simulated world, in peace and with its knobs turned."""

import os
from collections.abc import Iterator

import pytest

from tests.crash.conftest import MakeRig
from tests.crash.deployments import CHANGING_OVER
from tests.crash.matrix import Knobs, crash_everywhere
from tests.crash.rig import Rig
from tests.crash.scenarios import SIMULATED, Scenario, world_of
from tests.crash.sites import SimulatedSite


def _turn(**knobs: float) -> Knobs:
    def turn(rig: Rig) -> None:
        for name, value in knobs.items():
            world_of(rig).set_knob(name, value)

    return turn


PEACE = "in-peace"
WEATHER: dict[str, Knobs] = {
    PEACE: _turn(),
    "replies-lost": _turn(lose_replies=2),
    "requests-lost": _turn(lose_requests=1),
    "listings-lag": _turn(consistency_seconds=20, boot_seconds=5),
    "zombies": _turn(zombie_terminates=2, stop_seconds=3),
    "throttled": _turn(throttle=1, throttle_listings=2, lose_replies=1),
}


EVERY_POINT = os.environ.get("CRASH_POINTS") == "all"
"""`CRASH_POINTS=all make test ARGS=tests/crash`: all scenarios, weathers and boundaries. Otherwise a draw of them."""

POINTS_IN_PEACE, POINTS_IN_WEATHER = 4, 2
PATIENCE_SECONDS = 300.0


def _matrix() -> Iterator[tuple[Scenario, str, int]]:
    """Scenario, weather and how many points: each scenario in peace and in one weather, or in all of them."""
    bad_weather = [name for name in WEATHER if name != PEACE]
    for place, scenario in enumerate([*SIMULATED, *CHANGING_OVER]):
        # What waits for minutes of fake time takes as many looks.
        half = 2 if scenario.seconds > PATIENCE_SECONDS else 1
        yield scenario, PEACE, 0 if EVERY_POINT else POINTS_IN_PEACE // half
        for weather in bad_weather if EVERY_POINT else [bad_weather[place % len(bad_weather)]]:
            yield scenario, weather, 0 if EVERY_POINT else POINTS_IN_WEATHER // half


@pytest.mark.timeout(7200 if EVERY_POINT else 300)
@pytest.mark.parametrize(
    ("scenario", "weather", "points"), [pytest.param(*each, id=f"{each[0].name}-{each[1]}") for each in _matrix()]
)
def test_dying_between_any_two_steps_changes_nothing_in_the_end(
    make_rig: MakeRig, scenario: Scenario, weather: str, points: int
) -> None:
    told = crash_everywhere(lambda: make_rig(SimulatedSite()), scenario, WEATHER[weather], points)
    print(f"{scenario.name}, {weather}: {told}")
