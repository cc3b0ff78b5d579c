"""Ends that are overdue: asked for without end, and told of at once and then every hour."""

from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import Instance
from controlplane.fleet.selectors import stays_of
from controlplane.fleet.spend import by_pool, total
from tests.workers.plane import Plane
from workers.sweep import overdue


def terminates(plane: Plane) -> int:
    """How often the provider was asked to end something."""
    return len(plane.world.calls("terminate"))


def zombie(plane: Plane, terminates: int) -> None:
    """A deleted endpoint whose one instance does not heed so many terminates."""
    plane.create()
    plane.settle()
    plane.world.set_knob("zombie_terminates", terminates)
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(1)


def test_nothing_is_told_while_an_end_may_take_its_time(plane: Plane) -> None:
    zombie(plane, 1000)
    plane.clock.step(290)
    assert overdue.sweep(plane.clock.now()) == 0


def test_an_overdue_end_is_told_of_once_and_then_hourly_and_asked_for_throughout(plane: Plane) -> None:
    zombie(plane, 1000)
    before = terminates(plane)
    told = []
    for _ in range(65):
        plane.settle(30, step=30)
        told.append(overdue.sweep(plane.clock.now()))
    assert sum(told) == 2
    assert plane.story().count("TerminateOverdue") == 2
    assert terminates(plane) - before >= 12, "asked again at least every five minutes"
    assert plane.status() == "Deleting"
    assert Instance.objects.get().stage == "terminating"
    spend = total(by_pool(stays_of(Endpoint.objects.get().pk), plane.clock.now()))
    assert spend.running == 1, "what still lives still costs"
    assert spend.hours > 1


def test_it_ends_when_it_is_heeded_at_last(plane: Plane) -> None:
    zombie(plane, 15)
    plane.settle(3600, step=30)
    assert not plane.exists()
    assert plane.world.live() == []
    assert overdue.sweep(plane.clock.now()) == 0


def test_the_story_is_not_drowned_in_repeats(plane: Plane) -> None:
    zombie(plane, 10_000)
    plane.settle(3600, step=30)
    assert plane.story().count("InstanceTerminating") <= 40, "one every half minute would be 120"
