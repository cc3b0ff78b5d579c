"""A variant's RoutingConfig, from the configuration to what clients and gateways are told."""

from typing import Any

import pytest

from controlplane.core.errors import ValidationException
from controlplane.routing.models import RoutingSnapshot
from controlplane.routing.table import PrefixAware, VariantRoute, decode
from tests.workers.plane import Plane

PREFIX_AWARE = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 32},
}
KV_AWARE = {"RoutingStrategy": "KV_AWARE"}


def told(plane: Plane) -> VariantRoute:
    """What the gateways know of the variant."""
    document = RoutingSnapshot.objects.get(endpoint_name="e").document
    return next(each for each in decode(document).variants if each.share)


@pytest.mark.parametrize(
    ("routing", "expected"),
    [(PREFIX_AWARE, PrefixAware(4096, 32)), (KV_AWARE, None), ({"RoutingStrategy": "RANDOM"}, None)],
)
def test_it_is_echoed_and_told_to_the_gateways(plane: Plane, routing: dict[str, Any], expected: PrefixAware | None) -> None:
    plane.create(RoutingConfig=routing)
    pending = plane.describe()["PendingDeploymentSummary"]["ProductionVariants"][0]
    plane.settle()
    configured = plane.call("DescribeEndpointConfig", EndpointConfigName="e")["ProductionVariants"][0]
    deployed = plane.describe()["ProductionVariants"][0]
    assert [each["RoutingConfig"] for each in (pending, configured, deployed)] == [routing] * 3
    assert (told(plane).strategy, told(plane).prefix_aware) == (routing["RoutingStrategy"], expected)


def test_without_one_calls_are_spread_at_random(plane: Plane) -> None:
    plane.create()
    plane.settle()
    assert plane.describe()["ProductionVariants"][0]["RoutingConfig"] == {"RoutingStrategy": "RANDOM"}
    assert told(plane).strategy == "RANDOM"


def test_an_update_brings_another_one(plane: Plane) -> None:
    plane.create(RoutingConfig=KV_AWARE)
    plane.settle()
    plane.configure("next", RoutingConfig=PREFIX_AWARE)
    plane.update()
    plane.settle(seconds=120.0)
    assert plane.describe()["ProductionVariants"][0]["RoutingConfig"] == PREFIX_AWARE
    assert told(plane).prefix_aware == PrefixAware(4096, 32)


def test_half_a_prefix_aware_configuration_is_refused(plane: Plane) -> None:
    with pytest.raises(ValidationException, match="ConcurrencyThreshold"):
        plane.create(RoutingConfig={**PREFIX_AWARE, "PrefixAwareRoutingConfig": {"PrefixLength": 4096}})
