"""Quotas at the door: what is refused, that nothing of it is stored, and that two requests at once cannot pass together."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from controlplane.catalog.limits import drop_limit, limits_of, set_limit
from controlplane.core.errors import ResourceLimitExceeded
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.usage import usage_of
from controlplane.observability.models import Event
from tests.workers.plane import FIRST, SECOND, Plane

ACCOUNT = settings.HEADRACE.account_id


def test_nothing_is_limited_where_nobody_set_a_limit(plane: Plane) -> None:
    plane.create(count=50)
    assert limits_of(ACCOUNT) == {}


def test_a_create_over_the_quota_is_refused_and_leaves_nothing_behind(plane: Plane) -> None:
    set_limit(ACCOUNT, FIRST, 1, now=plane.clock.now())
    with pytest.raises(
        ResourceLimitExceeded, match=f"'{FIRST} for endpoint usage' is 1 Instances, with current"
    ) as refused:
        plane.create(count=2, types=(FIRST,))
    assert "utilization of 0 Instances and a request delta of 2 Instances" in refused.value.message
    assert not Endpoint.objects.exists()
    assert not Event.objects.filter(subject_name="e").exists()


def test_what_other_endpoints_want_counts_before_any_of_it_is_there(plane: Plane) -> None:
    set_limit(ACCOUNT, FIRST, 2, now=plane.clock.now())
    plane.create("a", types=(FIRST,), count=2)
    with pytest.raises(ResourceLimitExceeded, match="utilization of 2 Instances"):
        plane.create("b", types=(FIRST,))


def test_pools_count_together_and_what_serves_counts_where_it_serves(plane: Plane) -> None:
    set_limit(ACCOUNT, FIRST, 1, now=plane.clock.now())
    set_limit(ACCOUNT, SECOND, 2, now=plane.clock.now())
    plane.world.set_capacity(FIRST, 0)
    plane.create("a", count=1)
    plane.settle()
    assert usage_of(ACCOUNT, {}).placed == {FIRST: 0, SECOND: 1}
    plane.create("b", count=2)
    with pytest.raises(ResourceLimitExceeded):
        plane.create("c", count=1)


def test_scaling_out_is_checked_by_its_increase_and_scaling_in_never(plane: Plane) -> None:
    plane.create(count=2, types=(FIRST,))
    plane.settle()
    set_limit(ACCOUNT, FIRST, 3, now=plane.clock.now())
    with pytest.raises(ResourceLimitExceeded, match="utilization of 2 Instances and a request delta of 2 Instances"):
        plane.scale("e", 4)
    assert plane.describe()["ProductionVariants"][0]["DesiredInstanceCount"] == 2
    plane.scale("e", 3)
    plane.settle()
    set_limit(ACCOUNT, FIRST, 0, now=plane.clock.now())
    plane.scale("e", 1)
    plane.settle()
    assert plane.counts() == {FIRST: 1}


def test_an_update_needs_the_new_fleet_on_top_of_the_old_one(plane: Plane) -> None:
    plane.create(count=2, types=(FIRST,))
    plane.settle()
    set_limit(ACCOUNT, FIRST, 3, now=plane.clock.now())
    with pytest.raises(ResourceLimitExceeded, match="utilization of 2 Instances and a request delta of 2 Instances"):
        plane.call("UpdateEndpoint", EndpointName="e", EndpointConfigName="e")
    assert plane.status() == "InService"
    set_limit(ACCOUNT, FIRST, 4, now=plane.clock.now())
    plane.call("UpdateEndpoint", EndpointName="e", EndpointConfigName="e")


def test_a_deleted_endpoint_gives_its_share_back(plane: Plane) -> None:
    set_limit(ACCOUNT, FIRST, 1, now=plane.clock.now())
    plane.create("a", types=(FIRST,))
    plane.call("DeleteEndpoint", EndpointName="a")
    plane.create("b", types=(FIRST,))


def test_an_account_s_own_limit_wins_over_the_environment_s_until_it_is_dropped(plane: Plane, settings: Any) -> None:
    settings.HEADRACE = replace(settings.HEADRACE, quotas={FIRST: 4, SECOND: 5})
    set_limit(ACCOUNT, FIRST, 7, now=plane.clock.now())
    assert limits_of(ACCOUNT) == {FIRST: 7, SECOND: 5}
    assert drop_limit(ACCOUNT, FIRST, now=plane.clock.now())
    assert not drop_limit(ACCOUNT, FIRST, now=plane.clock.now())
    assert limits_of(ACCOUNT) == {FIRST: 4, SECOND: 5}


def test_of_many_creates_at_once_only_as_many_pass_as_the_quota_allows(plane: Plane) -> None:
    set_limit(ACCOUNT, FIRST, 3, now=plane.clock.now())
    plane.call("CreateModel", ModelName="m", PrimaryContainer={"Image": "headrace/reference"})
    variant = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": FIRST}
    plane.call("CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=[variant])
    together = threading.Barrier(8)

    def create(number: int) -> bool:
        try:
            connection.ensure_connection()
            together.wait(30)
            plane.call("CreateEndpoint", EndpointName=f"e{number}", EndpointConfigName="c")
        except ResourceLimitExceeded:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 3
    assert Endpoint.objects.count() == 3
