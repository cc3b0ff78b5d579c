"""Ceilings and quotas while instances are launched, over the real database and the simulated world."""

from dataclasses import replace

import pytest
from django.conf import settings

from controlplane.core.errors import ResourceLimitExceeded
from controlplane.fleet.models import Instance
from tests.workers.plane import FIRST, SECOND, THIRD, Plane


@pytest.fixture
def quotas(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The operator's quotas, to be written into."""
    table: dict[str, int] = {}
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, quotas=table))
    return table


def test_a_ceiling_keeps_the_endpoint_from_costing_more(plane: Plane, prices: dict[str, float]) -> None:
    prices.update({FIRST: 4.0, SECOND: 1.0, THIRD: 9.0})
    plane.create(count=3, types=(FIRST, SECOND, THIRD), tags={"headrace:max-hourly-price": "6"})
    plane.until(lambda: plane.status() == "InService")
    assert plane.counts() == {FIRST: 1, SECOND: 2, THIRD: 0}


def test_a_ceiling_that_nothing_fits_under_fails_the_creation_and_launches_nothing(
    plane: Plane, prices: dict[str, float]
) -> None:
    prices.update({FIRST: 4.0, SECOND: 5.0})
    tags = {"headrace:max-hourly-price": "3"}
    plane.create(tags=tags, VariantInstanceProvisionTimeoutInSeconds=300)
    plane.until(lambda: plane.status() == "Failed")
    assert plane.asked() == []
    assert "ceiling" in plane.describe()["FailureReason"]


def test_what_an_instance_costs_is_kept_with_it(plane: Plane, prices: dict[str, float]) -> None:
    prices.update({FIRST: 4.0})
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    prices.update({FIRST: 9.0})
    assert Instance.objects.get().hourly_price == 4


def test_a_pool_is_filled_up_to_its_quota_and_the_rest_lands_on_the_next(plane: Plane, quotas: dict[str, int]) -> None:
    quotas.update({FIRST: 1, SECOND: 5})
    plane.create(count=3)
    plane.until(lambda: plane.status() == "InService")
    assert plane.counts() == {FIRST: 1, SECOND: 2}
    assert plane.asked() == [f"{FIRST} launched", f"{SECOND} launched", f"{SECOND} launched"], "no call was refused"


def test_a_type_without_quota_is_never_asked(plane: Plane, quotas: dict[str, int]) -> None:
    quotas.update({FIRST: 0})
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    assert plane.asked() == [f"{SECOND} launched"]


def test_what_fits_no_quota_is_refused_at_once_and_nothing_is_created(plane: Plane, quotas: dict[str, int]) -> None:
    quotas.update({FIRST: 0, SECOND: 0})
    with pytest.raises(ResourceLimitExceeded, match=f"{FIRST} for endpoint usage' is 0 Instances"):
        plane.create()
    assert not plane.exists()


def test_an_update_needs_quota_for_the_new_fleet_beside_the_old_one(plane: Plane, quotas: dict[str, int]) -> None:
    quotas.update({THIRD: 3})
    plane.create(count=2, types=(THIRD,))
    plane.until(lambda: plane.status() == "InService")
    plane.configure("next", count=2, types=(THIRD,))
    with pytest.raises(ResourceLimitExceeded):
        plane.update()
    assert plane.status() == "InService"
    quotas.update({THIRD: 4})
    plane.update()
    plane.until(lambda: plane.status() == "InService")
    with pytest.raises(ResourceLimitExceeded):
        plane.scale("e", 5)
