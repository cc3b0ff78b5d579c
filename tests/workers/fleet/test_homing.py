"""Coming home, announced ends and patience, over the real database and the simulated world."""

from datetime import timedelta

import pytest

from controlplane.core.errors import ValidationException
from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.fleet.states import InstanceStage
from tests.workers.plane import FIRST, SECOND, Plane

HOME = {"headrace:coming-home": "10m"}


def away(plane: Plane, name: str = "e", count: int = 2, types: tuple[str, ...] = (FIRST, SECOND), **config: object) -> None:
    """An endpoint in service on its fallback, whose preferred type has just come back."""
    plane.world.set_capacity(FIRST, 0)
    plane.create(name, count=count, types=types, tags=HOME, **config)
    plane.until(lambda: plane.status(name) == "InService")
    plane.world.set_capacity(FIRST, 99)
    plane.clock.step(840)  # most of what the mark and the option ask for


def ready(plane: Plane) -> int:
    """Instances that serve."""
    return Instance.objects.filter(stage=InstanceStage.READY).count()


def test_fallbacks_come_home_one_by_one_and_never_is_there_one_less(plane: Plane) -> None:
    away(plane)
    fewest, most = [], []

    def has_moved(count: int) -> bool:
        fewest.append(ready(plane))
        most.append(len(plane.world.live()))
        return plane.counts() == {FIRST: count, SECOND: 2 - count}

    for count in (1, 2):
        plane.until(lambda count=count: has_moved(count))
        plane.clock.step(1800)
    assert min(fewest) == 2
    assert max(most) <= 3, "one replacement at a time"
    assert plane.status() == "InService"
    assert plane.story().count("MoveEnded") == 2


def test_nothing_moves_before_the_preferred_type_has_been_open_for_as_long_as_asked(plane: Plane) -> None:
    away(plane, count=1)
    opened_at = CapacityMark.objects.get().until
    plane.until(lambda: bool(plane.live().get(FIRST)), seconds=3600, step=5)
    assert plane.clock.now() - opened_at >= timedelta(minutes=10)


def test_without_the_option_nothing_moves(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(count=1)
    plane.until(lambda: plane.status() == "InService")
    plane.world.set_capacity(FIRST, 9)
    plane.clock.step(7200)
    plane.settle(30, step=1)
    assert plane.live() == {SECOND: 1}


def test_the_option_may_be_given_and_taken_later(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(count=1)
    plane.until(lambda: plane.status() == "InService")
    plane.world.set_capacity(FIRST, 9)
    plane.clock.step(7200)
    arn = plane.describe()["EndpointArn"]
    plane.call("AddTags", ResourceArn=arn, Tags=[{"Key": "headrace:coming-home", "Value": "1m"}])
    plane.until(lambda: plane.counts() == {FIRST: 1, SECOND: 0}, seconds=120)


def test_a_refused_move_costs_one_call_and_a_hold_down(plane: Plane) -> None:
    away(plane, count=1)
    plane.world.set_capacity(FIRST, 0)
    before = plane.asked().count(f"{FIRST} capacity")
    plane.until(lambda: "MoveRefused" in plane.story(), seconds=3600)
    for _ in range(10):
        plane.clock.step(170)
        plane.settle(1, step=1)
    assert plane.asked().count(f"{FIRST} capacity") == before + 1
    assert plane.counts() == {FIRST: 0, SECOND: 1}
    assert plane.status() == "InService"


def test_a_replacement_that_never_serves_is_undone_and_the_fallback_stays(plane: Plane) -> None:
    away(plane, count=1)
    plane.world.set_knob("exit_at_start", 1, FIRST)
    plane.until(lambda: "MoveEnded" in plane.story(), seconds=3600)
    plane.settle(20)
    assert plane.live() == {SECOND: 1}
    assert plane.counts() == {FIRST: 0, SECOND: 1}
    variant = EndpointVariant.objects.get()
    assert (variant.start_failures, variant.launch_not_before) == (0, None), "the move failed, not the variant"
    assert variant.move_not_before > plane.clock.now()


def test_a_type_that_flaps_moves_the_fleet_once_in_a_hold_down(plane: Plane) -> None:
    away(plane, count=1)
    plane.until(lambda: plane.counts() == {FIRST: 1, SECOND: 0}, seconds=3600)
    moves = plane.story().count("MoveEnded")
    for _ in range(4):
        plane.world.set_capacity(FIRST, 0)
        instance = next(row for row in plane.world.live() if row.instance_type in (FIRST, SECOND))
        plane.world.fail(instance.provider_id, "taken")
        plane.settle(8, step=2)
        plane.world.set_capacity(FIRST, 9)
        plane.settle(100, step=20)
    assert plane.story().count("MoveEnded") == moves


def test_the_budget_bounds_the_moves_of_all_endpoints_together(plane: Plane) -> None:
    names = ["a", "b", "c"]
    plane.world.set_capacity(FIRST, 0)
    for name in names:
        plane.create(name, tags=HOME)
    plane.until(lambda: all(plane.status(name) == "InService" for name in names))
    plane.world.set_capacity(FIRST, 99)
    plane.clock.step(840)
    plane.world.set_knob("boot_seconds", 40)
    most = 0

    def all_home() -> bool:
        nonlocal most
        most = max(most, len(plane.world.live()) - len(names))
        return all(plane.counts(name) == {FIRST: 1, SECOND: 0} for name in names)

    plane.until(all_home)
    assert most == 2


def test_an_announced_end_is_met_by_a_replacement_that_serves_first(plane: Plane) -> None:
    plane.create(count=1, tags={"headrace:market": "spot on-demand"})
    plane.until(lambda: plane.status() == "InService")
    (row,) = plane.world.live()
    plane.world.set_knob("boot_seconds", 20)
    plane.world.interrupt(row.provider_id, plane.clock.now() + timedelta(seconds=120))
    plane.until(lambda: len(plane.world.live()) == 2, seconds=30)
    assert ready(plane) == 1, "it serves until its replacement does"
    plane.until(
        lambda: ready(plane) == 1 and Instance.objects.get(stage="ready").provider_id != row.provider_id, seconds=60
    )
    assert "InterruptionNotice" in plane.story()
    assert CapacityMark.objects.get(instance_type=FIRST).market == "spot", "the spot market has none to spare"
    plane.settle(150, step=1)
    assert (ready(plane), len(plane.world.live())) == (1, 1)


def test_an_announced_end_that_presses_drains_the_instance_even_without_a_replacement(plane: Plane) -> None:
    plane.create(count=1, types=(FIRST,))
    plane.until(lambda: plane.status() == "InService")
    plane.world.set_capacity(FIRST, 0)
    (row,) = plane.world.live()
    plane.world.interrupt(row.provider_id, plane.clock.now() + timedelta(seconds=120))
    plane.settle(50, step=1)
    assert ready(plane) == 1
    plane.settle(20, step=1)
    assert ready(plane) == 0


def test_patience_waits_for_the_preferred_type_before_the_dearer_one(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(tags={"headrace:patience": f"{SECOND}=20m"}, VariantInstanceProvisionTimeoutInSeconds=3600)
    started = plane.clock.now()
    plane.until(lambda: plane.status() == "InService", seconds=3000)
    assert timedelta(minutes=20) <= plane.clock.now() - started < timedelta(minutes=22)
    assert plane.asked().count(f"{FIRST} capacity") <= 4, "marks keep the dry type from being hammered meanwhile"


def test_patience_is_rewarded_when_the_preferred_type_comes_back(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(tags={"headrace:patience": f"{SECOND}=20m"}, VariantInstanceProvisionTimeoutInSeconds=3600)
    plane.settle(60, step=1)
    plane.world.set_capacity(FIRST, 1)
    plane.until(lambda: plane.status() == "InService", seconds=600)
    assert plane.counts() == {FIRST: 1, SECOND: 0}


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ({"headrace:coming-home": "soon"}, "headrace:coming-home"),
        ({"headrace:max-hourly-price": "-1"}, "US dollars"),
        ({"headrace:patience": "ml.g5.2xlarge"}, "headrace:patience"),
        ({"headrace:market": "auction"}, "on-demand"),
        ({"headrace:colour": "blue"}, "headrace:surge"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(plane: Plane, tags: dict[str, str], text: str) -> None:
    with pytest.raises(ValidationException, match=text):
        plane.create(tags=tags)
    assert not plane.exists()
