"""Public failures of other servers, replayed on starts and changes: late pings, counts of 0, and who polls meanwhile."""

from typing import Any

import pytest

from controlplane.core.errors import ValidationException
from tests.workers.plane import FIRST, SECOND, Plane

HOUR = 3600
MOVING = ("Creating", "Updating", "SystemUpdating", "RollingBack")
"""While an endpoint says one of these, a tool that waits goes on waiting."""


# The first good ping.


def well_after(plane: Plane, seconds: float, limit: int) -> None:
    """An endpoint whose container answers /ping well only after so long, with `limit` seconds for its start."""
    plane.world.set_knob("is_sick", 1)
    plane.create(ContainerStartupHealthCheckTimeoutInSeconds=limit)
    plane.settle(seconds)
    plane.world.set_knob("is_sick", 0)


def test_a_first_good_ping_in_time_is_enough(plane: Plane) -> None:
    well_after(plane, 90, limit=120)
    assert plane.status() == "Creating"
    plane.settle(10)
    assert plane.status() == "InService"


def test_a_good_ping_that_comes_too_late_is_none(plane: Plane) -> None:
    plane.world.set_knob("is_sick", 1)
    plane.create(ContainerStartupHealthCheckTimeoutInSeconds=60)
    plane.settle(58)
    assert plane.status() == "Creating"
    plane.settle(10)
    assert plane.status() == "Failed"
    assert "did not pass the ping health check" in plane.describe()["FailureReason"]
    plane.settle(20)
    plane.world.set_knob("is_sick", 0)
    plane.settle(60)
    assert plane.status() == "Failed"
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle()
    assert not plane.exists()


# Counts of 0, and changes that say nothing.


def change(plane: Plane, **wish: Any) -> None:
    plane.call(
        "UpdateEndpointWeightsAndCapacities",
        EndpointName="e",
        DesiredWeightsAndCapacities=[{"VariantName": "v", **wish}],
    )


def test_a_real_time_endpoint_keeps_an_instance(plane: Plane) -> None:
    plane.create()
    plane.settle()
    before = plane.describe()
    with pytest.raises(ValidationException, match="allowed for asynchronous endpoints only"):
        change(plane, DesiredInstanceCount=0, DesiredWeight=5.0)
    assert plane.describe() == before


def test_an_asynchronous_endpoint_may_have_none_and_comes_back(plane: Plane) -> None:
    plane.create(asynchronous=True)
    plane.settle()
    change(plane, DesiredInstanceCount=0)
    plane.settle(10)
    assert plane.status() == "InService"
    assert plane.live() == {}
    change(plane, DesiredInstanceCount=1)
    plane.settle(10)
    assert plane.live() == {FIRST: 1}


def test_a_change_that_names_a_variant_alone_changes_nothing(plane: Plane) -> None:
    plane.create(count=2)
    plane.settle()
    before = plane.describe()["ProductionVariants"]
    change(plane)
    plane.settle()
    assert plane.status() == "InService"
    assert plane.describe()["ProductionVariants"] == before
    assert plane.asked() == [f"{FIRST} launched"] * 2


# Tools that poll.


def polled(plane: Plane, seconds: int = 600) -> list[dict[str, Any]]:
    """What a tool sees that describes the endpoint each second, from now until it stands still."""
    seen = [plane.describe()]
    while seen[-1]["EndpointStatus"] in MOVING:
        assert len(seen) < seconds
        plane.settle(1)
        seen.append(plane.describe())
    return seen


def test_whoever_polls_a_failed_update_never_sees_a_success(plane: Plane) -> None:
    """`InService` alone does not tell: the reason and the old configuration come in the same answer, and stay."""
    plane.create(types=(FIRST,))
    plane.settle()
    plane.configure("next", types=(SECOND,), ContainerStartupHealthCheckTimeoutInSeconds=60)
    plane.world.set_knob("is_sick", 1, SECOND)
    plane.update()
    *meanwhile, last = polled(plane)
    assert meanwhile, "right after the call it is under way"
    for each in meanwhile:
        assert each["EndpointConfigName"] == "e"
    assert (last["EndpointStatus"], last["EndpointConfigName"]) == ("InService", "e")
    assert "ping health check" in last["FailureReason"]
    plane.clock.step(HOUR)
    plane.settle()
    assert plane.describe()["FailureReason"] == last["FailureReason"]
    plane.world.set_knob("is_sick", 0, SECOND)
    plane.update()
    last = polled(plane)[-1]
    assert (last["EndpointStatus"], last["EndpointConfigName"]) == ("InService", "next")
    assert "FailureReason" not in last


def test_whoever_reads_right_after_a_creation_finds_all_of_it(plane: Plane) -> None:
    plane.create(tags={"team": "ml"})
    first = plane.describe()
    assert (first["EndpointStatus"], first["EndpointConfigName"]) == ("Creating", "e")
    assert plane.call("ListTags", ResourceArn=first["EndpointArn"])["Tags"] == [{"Key": "team", "Value": "ml"}]
    assert {each["EndpointStatus"] for each in polled(plane)} == {"Creating", "InService"}
