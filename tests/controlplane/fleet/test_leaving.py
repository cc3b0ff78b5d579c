"""Having one instance gone, over the real database and the simulated world: at once, or once another serves."""

from uuid import UUID

import pytest

from controlplane.core.actor import acting
from controlplane.core.errors import ResourceNotFound, ValidationException
from controlplane.core.ids import Arn, new_uuid
from controlplane.endpoints import homing
from controlplane.fleet import leaving
from controlplane.fleet.in_flight import calls_at
from controlplane.fleet.models import GatewayHeartbeat, Instance
from controlplane.fleet.states import InstanceStage
from controlplane.observability.models import Event
from tests.workers.plane import FIRST, SECOND, Plane

HOME = {"headrace:coming-home": "10m"}


def arn(plane: Plane, name: str = "e") -> Arn:
    """The endpoint's."""
    found = Arn.parse(plane.describe(name)["EndpointArn"])
    assert found is not None
    return found


def serving(plane: Plane, count: int = 1, **config: object) -> list[UUID]:
    """An endpoint in service; the ids of its instances."""
    plane.create(count=count, **config)
    plane.until(lambda: plane.status() == "InService")
    return list(Instance.objects.order_by("launched_at").values_list("id", flat=True))


def ready() -> list[UUID]:
    """Who serves."""
    return list(Instance.objects.filter(stage=InstanceStage.READY).values_list("id", flat=True))


def last(reason: str) -> Event:
    """The last event of this reason."""
    found = Event.objects.filter(reason=reason).last()
    assert found is not None
    return found


def test_a_replaced_instance_goes_once_another_serves_and_never_is_there_one_less(plane: Plane) -> None:
    (old,) = serving(plane)
    with acting("operator alice"):
        leaving.replace(arn=arn(plane), instance_id=old, now=plane.clock.now())
    fewest = []

    def is_replaced() -> bool:
        fewest.append(len(ready()))
        return bool(ready()) and old not in ready() and plane.rows() == 1

    plane.until(is_replaced)
    assert min(fewest) == 1
    assert plane.status() == "InService"
    assert last("ReplaceRequested").actor == "operator alice"
    assert "as operator alice asked" in last("InstanceDraining").sentence


def test_a_drained_instance_goes_at_once_and_its_place_is_filled(plane: Plane) -> None:
    (old,) = serving(plane)
    with acting("operator bob"):
        leaving.drain(arn=arn(plane), instance_id=old, now=plane.clock.now())
    plane.settle(0)
    assert Instance.objects.get(pk=old).stage == InstanceStage.TERMINATING, "no call was under way"
    plane.until(lambda: len(ready()) == 1)
    assert last("DrainRequested").actor == "operator bob"


def test_without_capacity_for_another_the_instance_to_be_replaced_serves_on(plane: Plane) -> None:
    (old,) = serving(plane)
    for kind in (FIRST, SECOND):
        plane.world.set_capacity(kind, 0)
    leaving.replace(arn=arn(plane), instance_id=old, now=plane.clock.now())
    plane.settle(60, step=1)
    assert ready() == [old]
    assert plane.status() == "InService"


def test_sending_young_instances_away_does_not_count_as_the_model_dying(plane: Plane) -> None:
    for _ in range(4):
        plane.until(lambda: len(ready()) == 1) if plane.exists() else serving(plane)
        leaving.drain(arn=arn(plane), instance_id=ready()[0], now=plane.clock.now())
        plane.settle(0)
    plane.until(lambda: len(ready()) == 1, seconds=60)


def test_asking_again_changes_nothing_and_a_drain_overrides_a_replacement(plane: Plane) -> None:
    (old,) = serving(plane)
    for kind in (FIRST, SECOND):
        plane.world.set_capacity(kind, 0)
    for _ in range(2):
        leaving.replace(arn=arn(plane), instance_id=old, now=plane.clock.now())
    assert plane.story().count("ReplaceRequested") == 1
    leaving.drain(arn=arn(plane), instance_id=old, now=plane.clock.now())
    with pytest.raises(ValidationException, match="about to be drained"):
        leaving.replace(arn=arn(plane), instance_id=old, now=plane.clock.now())
    plane.settle(0)
    with pytest.raises(ValidationException, match="already"):
        leaving.replace(arn=arn(plane), instance_id=old, now=plane.clock.now())


def test_an_instance_of_another_endpoint_or_of_none_is_not_found(plane: Plane) -> None:
    (of_e,) = serving(plane)
    plane.create("f")
    for instance_id in (of_e, new_uuid()):
        with pytest.raises(ResourceNotFound):
            leaving.drain(arn=arn(plane, "f"), instance_id=instance_id, now=plane.clock.now())


def test_nothing_is_asked_of_an_endpoint_that_is_being_deleted(plane: Plane) -> None:
    (old,) = serving(plane)
    name = arn(plane)
    plane.call("DeleteEndpoint", EndpointName="e")
    with pytest.raises(ValidationException, match="in-progress"):
        leaving.drain(arn=name, instance_id=old, now=plane.clock.now())


def test_calls_are_counted_from_live_gateways_alone(plane: Plane) -> None:
    (row,) = [Instance.objects.get(pk=each) for each in serving(plane)]
    now = plane.clock.now()
    for gateway, calls in (("a", 2), ("b", 3)):
        GatewayHeartbeat.objects.create(
            gateway_id=gateway, seen_at=now, table_age_seconds=0, in_flight={str(row.id): calls}
        )
    assert calls_at([row], now) == {row.id: 5}
    GatewayHeartbeat.objects.filter(gateway_id="b").update(seen_at=row.launched_at)
    plane.clock.step(60)
    GatewayHeartbeat.objects.filter(gateway_id="a").update(seen_at=plane.clock.now())
    assert calls_at([row], plane.clock.now()) == {row.id: 2}


def test_a_paused_endpoint_stays_on_its_fallback_until_it_is_resumed(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create(tags=HOME)
    plane.until(lambda: plane.status() == "InService")
    plane.world.set_capacity(FIRST, 9)
    with acting("operator alice"):
        homing.pause(arn=arn(plane), now=plane.clock.now())
    plane.clock.step(7200)
    plane.settle(30, step=1)
    assert plane.live() == {SECOND: 1}
    assert last("ComingHomePaused").actor == "operator alice"
    with acting("operator bob"):
        homing.resume(arn=arn(plane), now=plane.clock.now())
    plane.until(lambda: plane.counts() == {FIRST: 1, SECOND: 0}, seconds=120)
    assert last("ComingHomeResumed").actor == "operator bob"


def test_there_is_nothing_to_pause_without_the_option(plane: Plane) -> None:
    serving(plane)
    with pytest.raises(ValidationException, match="headrace:coming-home"):
        homing.pause(arn=arn(plane), now=plane.clock.now())
    homing.resume(arn=arn(plane), now=plane.clock.now())
    assert "ComingHomeResumed" not in plane.story(), "what is not paused is not resumed"
