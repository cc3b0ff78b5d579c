"""A clock that jumps by an hour under the planners: fleets are what is wanted in the end, and never twice as large."""

import pytest

from tests.workers.plane import FIRST, Plane

HOUR = 3600.0

pytestmark = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])


def test_a_jump_while_instances_boot_starts_none_twice(plane: Plane, jump: float) -> None:
    plane.world.set_knob("boot_seconds", 20)
    plane.create(count=3)
    plane.settle(5)
    plane.clock.jump(jump)
    plane.settle(5)
    plane.clock.jump(-jump)
    plane.until(lambda: plane.status() == "InService", 2 * HOUR)
    assert plane.live() == {FIRST: 3}
    assert plane.asked() == [f"{FIRST} launched"] * 3


def test_a_jump_while_a_fleet_shrinks_and_grows_makes_no_second_one(plane: Plane, jump: float) -> None:
    plane.world.set_knob("stop_seconds", 20)
    plane.create(count=3)
    plane.settle()
    plane.scale("e", 1)
    plane.settle(2)
    plane.clock.jump(jump)
    plane.until(lambda: plane.rows() == 1 and plane.status() == "InService", 2 * HOUR)
    plane.scale("e", 4)
    plane.settle(2)
    plane.clock.jump(-jump)
    plane.until(lambda: plane.rows() == 4 and plane.status() == "InService", 2 * HOUR)
    assert plane.live() == {FIRST: 4}
    assert plane.asked() == [f"{FIRST} launched"] * 6, "three, and three more"


def test_a_jump_while_an_endpoint_is_deleted_leaves_nothing(plane: Plane, jump: float) -> None:
    plane.world.set_knob("stop_seconds", 20)
    plane.create(count=2)
    plane.settle()
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(2)
    plane.clock.jump(jump)
    plane.until(lambda: not plane.exists(), 2 * HOUR)
    assert plane.live() == {}
