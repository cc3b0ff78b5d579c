"""A provider that is out of reach for a while, and what many endpoints do when it is back."""

from datetime import datetime, timedelta

import pytest

from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import CapacityMark
from tests.workers.plane import FIRST, SECOND, Plane

OUTAGE_SECONDS = 50
STEP_SECONDS = 2.0


def calls_since(plane: Plane, since: datetime) -> list[datetime]:
    """When the provider was asked for launches."""
    return [call.at for call in plane.world.calls() if call.at >= since]


def busiest(times: list[datetime]) -> int:
    """The most calls between two scans of this test."""
    return max(times.count(at) for at in times)


def refuse_all(plane: Plane, kind: str) -> None:
    """Answer every launch like this from now on; an empty kind lets launches through again."""
    for instance_type in (FIRST, SECOND):
        plane.world.refuse(instance_type, kind, "Out of reach.")


@pytest.mark.parametrize(("kind", "herd", "most"), [("throttled", 50, 35), ("ambiguous", 10, 9)])
def test_a_herd_comes_back_spread_out_after_an_outage(plane: Plane, kind: str, herd: int, most: int) -> None:
    """All were created at the same moment: the worst there can be, since only jitter draws them apart."""
    refuse_all(plane, kind)
    start = plane.clock.now()
    for number in range(herd):
        plane.create(f"e{number}")
    plane.settle(OUTAGE_SECONDS, step=STEP_SECONDS)
    during = calls_since(plane, start)
    refuse_all(plane, "")
    ended = plane.clock.now()
    while Endpoint.objects.exclude(phase="InService").exists():
        plane.settle(0, step=STEP_SECONDS)
        assert plane.clock.now() - ended < timedelta(seconds=80), "back-off is a minute and a fifth at most"
    after = calls_since(plane, ended)
    assert len(during) <= herd * 6, "5, 10, 20 and 40 s apart"
    # Jitter is chance: more than these at the same moment are 1 in 10^5 runs.
    assert busiest(after) <= most, "those who came together go apart"
    assert not CapacityMark.objects.exists(), "no type is marked because its provider was out of reach"
    assert len(plane.world.live()) == herd
