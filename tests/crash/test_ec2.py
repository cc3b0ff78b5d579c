"""The crash matrix over the EC2 provider and the fake EC2."""

from pathlib import Path

import pytest

from tests.crash.conftest import MakeRig
from tests.crash.matrix import Knobs, crash_everywhere
from tests.crash.rig import Rig
from tests.crash.scenarios import EVERYWHERE, Scenario
from tests.crash.sites import Ec2Site

POINTS = 2
CONSISTENCY_SECONDS = 10


def _turn(**knobs: float) -> Knobs:
    def turn(rig: Rig) -> None:
        assert isinstance(rig.site, Ec2Site)
        for name, value in knobs.items():
            rig.site.world.set_knob(name, value)

    return turn


WEATHER: dict[str, Knobs] = {
    "replies-lost": _turn(lose_replies=1, stop_seconds=3),
    "requests-lost": _turn(lose_requests=1, internal_errors=1, boot_seconds=3),
    "zombies": _turn(zombie_terminates=1, empty_replies=1),
}


@pytest.mark.parametrize(
    ("scenario", "weather"),
    [
        pytest.param(scenario, weather, id=f"{scenario.name}-{weather}")
        for place, scenario in enumerate(EVERYWHERE)
        for weather in [list(WEATHER)[place % len(WEATHER)]]
    ],
)
def test_no_machine_is_leaked_or_doubled_by_a_crash(
    make_rig: MakeRig, tmp_path: Path, scenario: Scenario, weather: str
) -> None:
    told = crash_everywhere(lambda: make_rig(Ec2Site(tmp_path, CONSISTENCY_SECONDS)), scenario, WEATHER[weather], POINTS)
    print(f"{scenario.name}, {weather}: {told}")
