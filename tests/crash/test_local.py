"""The crash matrix over real processes of this host."""

from pathlib import Path

import pytest

from tests.crash.conftest import MakeRig
from tests.crash.matrix import crash_everywhere
from tests.crash.scenarios import EVERYWHERE, Scenario
from tests.crash.sites import LocalSite

POINTS = 2


@pytest.mark.parametrize("scenario", EVERYWHERE, ids=lambda each: each.name)
def test_no_process_is_leaked_or_doubled_by_a_crash(make_rig: MakeRig, tmp_path: Path, scenario: Scenario) -> None:
    sites = iter(range(1000))
    told = crash_everywhere(lambda: make_rig(LocalSite(tmp_path / str(next(sites)))), scenario, lambda rig: None, POINTS)
    print(f"{scenario.name}: {told}")
