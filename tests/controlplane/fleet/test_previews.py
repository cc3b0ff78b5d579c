"""A preview says what the planner then does, on the same memory and the same world."""

import pytest
from django.conf import settings

from controlplane.catalog.limits import set_limit
from controlplane.catalog.models import EndpointConfig
from controlplane.core.errors import ResourceLimitExceeded, ServiceUnavailable
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.options import Options
from controlplane.fleet import previews
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.placement import Preview
from controlplane.observability.models import Event
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers

PLENTY = 1000


def configured(plane: Plane, name: str = "e", *, count: int = 1, types: tuple[str, ...] = (FIRST, SECOND)) -> None:
    """A model and a configuration of one variant over these types, and no endpoint."""
    plane.call("CreateModel", ModelName=name, PrimaryContainer={"Image": "headrace/reference"})
    pools = [{"InstanceType": each, "Priority": place} for place, each in enumerate(types, start=1)]
    shape = {"VariantName": "v", "ModelName": name, "InitialInstanceCount": count, "InstancePools": pools}
    plane.call("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[shape])


def previewed(plane: Plane, name: str = "e", options: Options | None = None) -> Preview:
    """The preview of a configuration, the provider having just been asked what is free."""
    offers.tell(plane.clock.now())
    plans = previews.of_config(EndpointConfig.objects.get(name=name))
    return previews.make(settings.HEADRACE.account_id, plans, options or Options(), plane.clock.now())


def by_type(found: Preview) -> dict[str, int]:
    """Instances by type."""
    counts: dict[str, int] = {}
    for landing in found.landings:
        kind = landing.offering.pool.instance_type
        counts[kind] = counts.get(kind, 0) + landing.count
    return counts


@pytest.mark.parametrize(
    "capacity",
    [
        {FIRST: PLENTY, SECOND: PLENTY, THIRD: PLENTY},
        {FIRST: 0, SECOND: PLENTY, THIRD: PLENTY},
        {FIRST: 1, SECOND: 1, THIRD: PLENTY},
        {FIRST: 0, SECOND: 0, THIRD: 3},
        {FIRST: 2, SECOND: 0, THIRD: 5},
    ],
)
def test_the_planner_then_does_what_the_preview_said(plane: Plane, capacity: dict[str, int]) -> None:
    for kind, slots in capacity.items():
        plane.world.set_capacity(kind, slots)
    configured(plane, count=3, types=(FIRST, SECOND, THIRD))
    found = previewed(plane)
    assert found.would_serve
    assert all(landing.is_certain for landing in found.landings)
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
    plane.settle(20)
    assert plane.status() == "InService"
    assert {kind: count for kind, count in plane.counts().items() if count} == by_type(found)
    prices = Instance.objects.values_list("hourly_price", flat=True)
    assert float(sum(prices)) == pytest.approx(found.hourly_cost, abs=1e-3)


def test_a_preview_goes_by_what_other_endpoints_have_met(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.create("other")
    plane.settle()
    plane.world.set_capacity(FIRST, PLENTY)
    configured(plane)
    found = previewed(plane)
    assert by_type(found) == {SECOND: 1}
    assert "skipped until" in found.landings[0].why
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
    plane.settle()
    assert plane.counts() == {FIRST: 0, SECOND: 1}


def test_a_preview_changes_nothing_and_asks_for_nothing(plane: Plane) -> None:
    configured(plane)
    events = Event.objects.count()
    previewed(plane)
    assert not Endpoint.objects.exists()
    assert not LaunchAttempt.objects.exists()
    assert Event.objects.count() == events
    assert plane.asked() == []


def test_a_preview_tells_how_long_such_instances_took_before(plane: Plane) -> None:
    plane.world.set_knob("boot_seconds", 40.0)
    plane.create("other")
    plane.settle(60)
    configured(plane)
    boots = previewed(plane).landings[0].boots
    assert boots is not None
    assert boots.count == 1
    assert boots.p50_seconds == pytest.approx(40.0, abs=6.0)


def test_a_ceiling_decides_as_it_will_for_the_planner(plane: Plane) -> None:
    configured(plane, count=2)
    options = Options(hourly_ceiling=0.6)
    found = previewed(plane, options=options)
    assert by_type(found) == {SECOND: 1}, "ml.g5.2xlarge costs 1.212, ml.g4dn.xlarge 0.526"
    assert found.variants[0].missing == 1


def test_a_search_between_a_dry_type_and_a_dear_one_rests_between_its_tries(plane: Plane) -> None:
    plane.world.set_capacity(SECOND, 0)
    configured(plane, types=(SECOND, FIRST))
    found = previewed(plane, options=Options(hourly_ceiling=1.0))
    assert found.variants[0].missing == 1
    tags = [{"Key": "headrace:max-hourly-price", "Value": "1.0"}]
    plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e", Tags=tags)
    plane.settle(30)
    assert plane.status() == "Creating"
    assert plane.asked() == [f"{SECOND} capacity"] * len(plane.asked())
    assert 2 <= len(plane.asked()) <= 7


def test_the_quota_that_would_refuse_the_endpoint_is_told_in_its_own_words(plane: Plane) -> None:
    set_limit(settings.HEADRACE.account_id, FIRST, 1, now=plane.clock.now())
    configured(plane, count=2, types=(FIRST,))
    found = previewed(plane)
    assert not found.would_serve
    with pytest.raises(ResourceLimitExceeded) as refused:
        plane.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
    assert found.refusal == refused.value.message


def test_before_the_scheduler_has_said_anything_there_is_no_preview(plane: Plane) -> None:
    configured(plane)
    plans = previews.of_config(EndpointConfig.objects.get())
    with pytest.raises(ServiceUnavailable):
        previews.make(settings.HEADRACE.account_id, plans, Options(), plane.clock.now())


def test_inline_variants_are_taken_as_a_configuration_would_be(plane: Plane) -> None:
    offers.tell(plane.clock.now())
    single = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 2, "InstanceType": THIRD}
    found = previews.make(settings.HEADRACE.account_id, previews.of_request([single]), Options(), plane.clock.now())
    assert by_type(found) == {THIRD: 2}
