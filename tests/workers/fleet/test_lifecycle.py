"""The fleet from wish to fact, over the real database and the simulated world; the scan alone, no message."""

from collections import Counter

import pytest

from controlplane.core.errors import ValidationException
from controlplane.fleet.models import CapacityMark, LaunchAttempt
from tests.workers.plane import FIRST, SECOND, THIRD, Plane


def test_comes_up_on_the_preferred_type_when_it_is_there(plane: Plane) -> None:
    plane.create(count=2)
    plane.settle()
    assert plane.status() == "InService"
    assert plane.counts() == {FIRST: 2, SECOND: 0}


def test_falls_back_to_the_next_pool_when_the_first_is_refused(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle()
    assert plane.counts() == {FIRST: 0, SECOND: 1}
    assert plane.asked() == [f"{FIRST} capacity", f"{SECOND} launched"]


def test_keeps_a_partial_fill_and_fills_the_rest_from_the_next_pool(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.create(count=3)
    plane.settle()
    assert plane.counts() == {FIRST: 1, SECOND: 2}
    assert plane.describe()["ProductionVariants"][0]["CurrentInstanceCount"] == 3


def test_one_refusal_spares_every_other_endpoint_the_dry_type(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("a")
    plane.settle()
    for name in "bcd":
        plane.create(name)
    plane.settle()
    assert [plane.status(name) for name in "abcd"] == ["InService"] * 4
    assert plane.asked().count(f"{FIRST} capacity") == 1


def test_a_mark_that_ran_out_is_probed_by_one_launch_and_cleared_by_its_success(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(count=1)
    plane.settle()
    plane.world.set_capacity(FIRST, 9)
    plane.clock.step(301)
    plane.scale("e", 3)
    plane.settle()
    assert plane.counts() == {FIRST: 2, SECOND: 1}
    launches = Counter(LaunchAttempt.objects.values_list("instance_type", "is_probe"))
    assert launches == {(FIRST, False): 2, (FIRST, True): 1, (SECOND, False): 1}
    assert not CapacityMark.objects.exists()


def test_when_every_pool_stays_dry_creation_fails_with_the_capacity_reason(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create(VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle(290)
    assert plane.status() == "Creating"
    plane.settle(15)
    assert plane.status() == "Failed"
    assert "InsufficientInstanceCapacity" in plane.describe()["FailureReason"]
    assert len(plane.asked()) > 4, "the list is walked again until the budget ends"
    assert plane.rows() == 0


def test_partial_fills_are_ended_when_creation_fails(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.world.set_capacity(SECOND, 0)
    plane.create(count=2, VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle(310)
    assert plane.status() == "Failed"
    assert plane.world.live() == []


def test_scale_out_starts_again_at_priority_one(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.create(count=2)
    plane.settle()
    plane.world.set_capacity(FIRST, 9)
    plane.clock.step(301)
    plane.scale("e", 3)
    plane.settle()
    assert plane.counts() == {FIRST: 2, SECOND: 1}


def test_scale_in_ends_the_fallback_first_and_drains_before(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.create(count=3, types=(FIRST, SECOND))
    plane.settle()
    plane.scale("e", 1)
    plane.settle()
    assert plane.status() == "InService"
    assert plane.counts() == {FIRST: 1, SECOND: 0}
    assert [row.instance_type for row in plane.world.live()] == [FIRST]
    story = plane.story()
    assert story.count("InstanceDraining") == 2
    assert story.index("InstanceDraining") < story.index("InstanceTerminating")


def test_scale_out_without_capacity_rolls_back_and_says_why(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.create(types=(FIRST,), VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle()
    plane.scale("e", 2)
    plane.settle(10)
    assert plane.status() == "Updating"
    plane.settle(300)
    described = plane.describe()
    assert described["EndpointStatus"] == "InService"
    assert described["ProductionVariants"][0]["DesiredInstanceCount"] == 1
    assert "InsufficientInstanceCapacity" in described["FailureReason"]


def test_a_good_change_clears_the_reason_of_a_failed_one(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.create(types=(FIRST,), VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle()
    plane.scale("e", 2)
    plane.settle(310)
    plane.world.set_capacity(FIRST, 2)
    plane.clock.step(1801)
    plane.scale("e", 2)
    plane.settle()
    assert "FailureReason" not in plane.describe()
    assert plane.counts() == {FIRST: 2}


def test_an_instance_whose_ping_fails_three_times_is_replaced(plane: Plane) -> None:
    plane.create()
    plane.settle()
    (old,) = plane.world.live()
    plane.world.set_knob("is_sick", 1)
    plane.settle(12)
    plane.world.set_knob("is_sick", 0)
    plane.settle(10)
    (new,) = plane.world.live()
    assert new.provider_id != old.provider_id
    assert plane.status() == "InService"
    assert plane.counts() == {FIRST: 1, SECOND: 0}


def test_an_instance_that_dies_is_replaced(plane: Plane) -> None:
    plane.create()
    plane.settle()
    (old,) = plane.world.live()
    plane.world.fail(old.provider_id, "killed by SIGKILL")
    plane.settle(10)
    assert [row.provider_id for row in plane.world.live()] != [old.provider_id]
    assert plane.counts() == {FIRST: 1, SECOND: 0}


def test_a_model_that_never_answers_ping_fails_and_does_not_walk_the_pools(plane: Plane) -> None:
    plane.world.set_knob("is_sick", 1)
    plane.create(ContainerStartupHealthCheckTimeoutInSeconds=60)
    plane.settle(70)
    described = plane.describe()
    assert described["EndpointStatus"] == "Failed"
    assert "did not pass the ping health check" in described["FailureReason"]
    assert plane.asked() == [f"{FIRST} launched"]


def test_an_image_nobody_can_run_fails_at_once_and_does_not_walk_the_pools(plane: Plane) -> None:
    plane.world.refuse(FIRST, "misconfigured", "No such image.")
    plane.create()
    plane.settle()
    assert plane.status() == "Failed"
    assert "make sure all images" in plane.describe()["FailureReason"]
    assert plane.asked() == [f"{FIRST} misconfigured"]


def test_a_throttle_marks_nothing_and_asks_the_same_pool_again(plane: Plane) -> None:
    plane.world.set_knob("throttle", 1)
    plane.create()
    plane.settle(10)
    assert plane.asked() == [f"{FIRST} throttled", f"{FIRST} launched"]
    assert plane.counts() == {FIRST: 1, SECOND: 0}


@pytest.mark.parametrize("knob", ["lose_replies", "lose_requests"])
def test_a_lost_reply_neither_doubles_nor_loses_an_instance(plane: Plane, knob: str) -> None:
    plane.world.set_knob(knob, 1)
    plane.create(count=2)
    plane.settle()
    assert plane.status() == "InService"
    assert len(plane.world.live()) == 2


def test_delete_works_while_creating_and_leaves_nothing(plane: Plane) -> None:
    plane.world.set_knob("boot_seconds", 100)
    plane.create(count=3)
    plane.settle(2)
    assert plane.status() == "Creating"
    plane.call("DeleteEndpoint", EndpointName="e")
    assert plane.status() == "Deleting"
    plane.settle()
    assert not plane.exists()
    assert plane.world.live() == []


def test_delete_never_gives_up_on_an_instance_that_will_not_end(plane: Plane) -> None:
    plane.create()
    plane.settle()
    plane.world.set_knob("zombie_terminates", 3)
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(60)
    assert plane.status() == "Deleting"
    plane.settle(60)
    assert not plane.exists()
    assert plane.world.live() == []


def test_a_second_delete_is_refused_and_a_deleted_endpoint_is_not_found(plane: Plane) -> None:
    plane.create()
    plane.settle()
    plane.call("DeleteEndpoint", EndpointName="e")
    with pytest.raises(ValidationException, match='Cannot update in-progress endpoint "arn:'):
        plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle()
    with pytest.raises(ValidationException, match=r'Could not find endpoint "arn:.*"\.'):
        plane.call("DeleteEndpoint", EndpointName="e")


def test_eight_endpoints_contending_for_three_slots_never_exceed_them(plane: Plane) -> None:
    plane.world.set_capacity(THIRD, 3)
    for number in range(8):
        plane.create(f"e{number}", types=(THIRD,), VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle(310)
    states = [plane.status(f"e{number}") for number in range(8)]
    assert sorted(set(states)) == ["Failed", "InService"]
    assert states.count("InService") == 3
    assert len(plane.world.live()) == 3


def test_every_step_is_told_in_order(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle()
    assert plane.story() == [
        "CreateRequested",
        "LaunchRequested",
        "PoolRefused",
        "LaunchRequested",
        "InstanceLaunched",
        "InstanceReady",
        "InService",
    ]
