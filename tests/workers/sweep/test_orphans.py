"""The orphan sweep over the real database and the simulated world."""

import pytest

from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.orphans import services
from controlplane.orphans.models import Orphan
from tests.workers.plane import FIRST, Plane
from tests.workers.sweep.strays import OLD, Strays
from workers.sweep.plan import MANY


def test_an_instance_that_nobody_has_is_ended_told_of_and_closed(plane: Plane, strays: Strays) -> None:
    strays.remember()
    stray = strays.launch()
    assert strays.sweep(after=OLD) == [stray.provider_id]
    assert strays.ids == []
    assert strays.states == ["ending"]
    assert strays.sweep(after=10) == []
    assert strays.states == ["gone"]
    assert strays.told() == ["OrphanFound", "OrphanEnding", "OrphanGone"]


def test_a_young_instance_a_foreign_one_and_the_fleet_s_own_are_left_alone(plane: Plane, strays: Strays) -> None:
    plane.create(count=2)
    plane.settle()
    foreign = strays.launch(owner="somebody else")
    plane.settle(OLD)
    young = strays.launch()
    assert strays.sweep(after=OLD - 2) == []
    assert strays.states == []
    assert {foreign.provider_id, young.provider_id} <= set(strays.ids)
    assert len(strays.ids) == 4


def test_a_launch_whose_outcome_is_open_is_no_orphan_however_old(plane: Plane, strays: Strays) -> None:
    plane.create()
    plane.settle()
    strays.crash_before_the_outcome_is_stored()
    assert strays.sweep(after=3600) == []
    assert strays.states == []


def test_a_late_launch_is_adopted_by_the_endpoint_that_lacks_it(plane: Plane, strays: Strays) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(types=(FIRST,))
    plane.settle(1)
    plane.world.set_capacity(FIRST, 1)
    late = strays.launch_late()
    assert strays.sweep(after=OLD) == []
    assert strays.states == ["adopted"]
    plane.settle(8)
    assert plane.status() == "InService"
    assert list(Instance.objects.values_list("provider_id", flat=True)) == [late.provider_id]
    assert strays.ids == [late.provider_id]
    assert "OrphanAdopted" in plane.story()


def test_a_late_launch_is_ended_when_its_endpoint_has_what_it_wants(plane: Plane, strays: Strays) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create()
    plane.settle()
    plane.world.set_capacity(FIRST, 1)
    late = strays.launch_late()
    plane.settle(OLD)
    assert strays.sweep() == [late.provider_id]
    assert len(strays.ids) == 1
    orphan = Orphan.objects.get()
    assert orphan.endpoint_name == "e"
    assert "closed as refused" in orphan.origin


def test_only_as_many_are_adopted_as_are_lacking(plane: Plane, strays: Strays) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(types=(FIRST,))
    plane.settle(8)
    tokens = list(LaunchAttempt.objects.order_by("called_at").values_list("token", flat=True))
    assert len(tokens) > 1
    plane.world.set_capacity(FIRST, 2)
    for token in tokens[:2]:
        strays.launch(token)
    strays.sweep(after=OLD)
    strays.sweep(after=10)
    assert sorted(strays.states) == ["adopted", "ending"]
    plane.settle(8)
    assert len(strays.ids) == 1
    assert plane.counts() == {FIRST: 1}


def test_nothing_is_adopted_by_an_endpoint_that_is_deleted_meanwhile(plane: Plane, strays: Strays) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(types=(FIRST,))
    plane.settle(1)
    plane.world.set_capacity(FIRST, 1)
    late = strays.launch_late()
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(OLD)
    assert not plane.exists()
    assert strays.sweep() == [late.provider_id]
    assert strays.ids == []


def test_an_instance_that_turns_up_again_is_ended_and_its_deleted_endpoint_is_named(plane: Plane, strays: Strays) -> None:
    plane.create()
    plane.settle()
    (old,) = plane.world.live()
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(OLD)
    assert not plane.exists()
    strays.turn_up_again(old)
    assert strays.sweep() == [old.provider_id]
    assert Orphan.objects.get().origin == "it was launched for endpoint e, which is deleted"


def test_a_zombie_is_asked_again_each_sweep_and_told_of_when_overdue(plane: Plane, strays: Strays) -> None:
    strays.remember()
    zombie = strays.launch()
    plane.world.set_knob("zombie_terminates", 7)
    for _ in range(7):
        assert strays.sweep(after=OLD) == [zombie.provider_id]
    orphan = Orphan.objects.get()
    assert orphan.asks == 7
    assert orphan.is_overdue(plane.clock.now())
    assert strays.told().count("OrphanOverdue") == 1
    assert strays.sweep(after=3601) == [zombie.provider_id], "the eighth has its effect"
    strays.sweep(after=10)
    assert strays.states == ["gone"]
    assert strays.told().count("OrphanOverdue") == 2, "told of again after an hour"
    assert strays.told().count("OrphanEnding") == 1


def test_it_costs_until_it_is_gone(plane: Plane, strays: Strays) -> None:
    strays.remember()
    strays.launch()
    plane.world.set_knob("zombie_terminates", 1)
    strays.sweep(after=1800)
    orphan = Orphan.objects.get()
    orphan.hourly_price = 2.0
    assert orphan.cost(plane.clock.now()) == pytest.approx(1.0)
    strays.sweep(after=1800)
    strays.sweep(after=1800)
    orphan = Orphan.objects.get()
    orphan.hourly_price = 2.0
    assert orphan.state == "gone"
    assert orphan.cost(plane.clock.now()) == pytest.approx(3.0)
    plane.clock.step(9999)
    assert orphan.cost(plane.clock.now()) == pytest.approx(3.0)


def test_report_mode_finds_and_tells_and_ends_nothing(plane: Plane, strays: Strays) -> None:
    strays.remember()
    stray = strays.launch()
    strays.set_mode("report")
    assert strays.sweep(after=OLD) == []
    assert strays.sweep(after=10) == []
    assert strays.ids == [stray.provider_id]
    assert strays.told() == ["OrphanFound"]
    assert "only reports" in Orphan.objects.get().reason
    strays.set_mode("kill")
    assert strays.sweep(after=10) == [stray.provider_id]


def test_after_a_restore_the_sweep_is_held_back_until_an_operator_confirms(plane: Plane, strays: Strays) -> None:
    plane.create("before")
    plane.settle()
    backup = plane.clock.now()
    plane.settle(300)
    plane.create("after", count=3)
    plane.settle()
    strays.restore_from(backup)
    plane.settle(300)
    lost = [row.provider_id for row in plane.world.live() if not Instance.objects.filter(token=row.token).exists()]
    assert len(lost) == 3
    assert strays.sweep() == []
    assert strays.sweep(after=3601) == []
    assert set(lost) <= set(strays.ids)
    assert strays.told().count("OrphanSweepHeld") == 2, "told of loudly, and again after an hour"
    assert plane.status("before") == "InService"

    services.confirm_sweep(plane.clock.now())
    assert sorted(strays.sweep(after=10)) == sorted(lost)
    assert len(strays.ids) == 1


def test_a_hold_ends_by_itself_when_nothing_in_doubt_is_left(plane: Plane, strays: Strays) -> None:
    stray = strays.launch()
    assert strays.sweep(after=3600) == []
    assert set(strays.told()) == {"OrphanFound", "OrphanSweepHeld"}
    strays.end(stray)
    strays.sweep(after=10)
    assert strays.told()[-1] == "OrphanSweepResumed"
    strays.remember()
    later = strays.launch()
    assert strays.sweep(after=OLD) == [later.provider_id]


def test_many_at_once_are_held_back(plane: Plane, strays: Strays) -> None:
    strays.remember()
    for _ in range(MANY + 1):
        strays.launch()
    assert strays.sweep(after=OLD) == []
    assert len(strays.ids) == MANY + 1
    assert strays.states == ["found"] * (MANY + 1)


def test_a_provider_that_cannot_be_listed_closes_nothing(plane: Plane, strays: Strays) -> None:
    strays.remember()
    strays.launch()
    plane.world.set_knob("zombie_terminates", 1)
    strays.sweep(after=OLD)
    plane.world.set_knob("throttle_listings", 1)
    assert strays.sweep(after=10) == []
    assert strays.states == ["ending"]
