"""UpdateEndpoint from wish to fact, over the real database and the simulated world."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from controlplane.core.errors import ValidationException
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant
from controlplane.metrics.models import MetricAlarm
from controlplane.routing.models import RoutingSnapshot
from tests.workers.plane import FIRST, SECOND, THIRD, Plane


def blue_green(kind: str = "ALL_AT_ONCE", wait: int = 0, **more: Any) -> dict[str, Any]:
    """A blue/green DeploymentConfig."""
    sizes = {
        key: {"Type": "CAPACITY_PERCENT", "Value": more.pop(key)} for key in ("CanarySize", "LinearStepSize") if key in more
    }
    routing = {"Type": kind, "WaitIntervalInSeconds": wait, **sizes}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, **more}}


def rolling(percent: int = 50, wait: int = 0, **more: Any) -> dict[str, Any]:
    """A rolling DeploymentConfig."""
    size = {"Type": "CAPACITY_PERCENT", "Value": percent}
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait, **more}}


def shares(plane: Plane) -> dict[str, float]:
    """The share of calls of each configuration that has any, as the gateways are told."""
    document = RoutingSnapshot.objects.get(endpoint_name="e").document
    return {each["config_name"]: round(each["share"], 6) for each in document["variants"] if each["share"]}


def serving(plane: Plane) -> dict[str, int]:
    """Instances that take calls, by configuration, as the gateways are told."""
    document = RoutingSnapshot.objects.get(endpoint_name="e").document
    counts = {
        each["config_name"]: sum(not target["is_draining"] for target in each["targets"]) for each in document["variants"]
    }
    return {name: count for name, count in counts.items() if count}


def deployed(plane: Plane, **config: Any) -> None:
    """An endpoint `e` in service, and a configuration `next` for it."""
    plane.create(count=config.get("count", 2), types=(FIRST,))
    plane.settle()
    plane.configure("next", **{"count": 2, "types": (SECOND,), **config})


def ring(plane: Plane, state: str) -> None:
    """The alarm named `alarm` says this from now on."""
    now = plane.clock.now()
    facts = {"state": state, "reason": "a rehearsal", "state_since": now, "state_updated_at": now}
    new = {"id": uuid4(), "metric_set_id": uuid4(), "request": {}, "configured_at": now, "due_at": now + timedelta(days=1)}
    MetricAlarm.objects.update_or_create(
        account_id=settings.HEADRACE.account_id, name="alarm", defaults=facts, create_defaults={**facts, **new}
    )


def test_all_at_once_brings_the_new_fleet_up_beside_the_old_one_and_then_lets_that_go(plane: Plane) -> None:
    deployed(plane)
    plane.update()
    assert plane.status() == "Updating"
    plane.until(lambda: plane.live() == {FIRST: 2, SECOND: 2})
    plane.until(lambda: plane.status() == "InService")
    assert shares(plane) == {"next": 1.0}
    assert plane.describe()["EndpointConfigName"] == "next"
    assert plane.counts() == {SECOND: 2}
    plane.settle(10)
    assert plane.live() == {SECOND: 2}
    assert EndpointVariant.objects.filter(retired_at=None).count() == 1


def test_what_is_described_while_it_runs_and_after(plane: Plane) -> None:
    deployed(plane)
    plane.world.set_knob("boot_seconds", 30)
    policy = blue_green("CANARY", wait=60, CanarySize=50)
    plane.update(policy=policy)
    plane.settle(2)
    during = plane.describe()
    pending = during["PendingDeploymentSummary"]
    assert (during["EndpointConfigName"], pending["EndpointConfigName"]) == ("e", "next")
    assert pending["ProductionVariants"][0]["VariantStatus"][0]["Status"] == "Creating"
    assert pending["ProductionVariants"][0]["DesiredInstanceCount"] == 2
    assert during["ProductionVariants"][0]["VariantStatus"][0]["Status"] == "Updating"
    statuses = set()

    def is_over() -> bool:
        picture = plane.describe()
        for variant in picture.get("PendingDeploymentSummary", {}).get("ProductionVariants", []):
            statuses.add(variant["VariantStatus"][0]["Status"])
        return bool(picture["EndpointStatus"] == "InService")

    plane.until(is_over)
    assert {"Creating", "ActivatingTraffic", "Baking"} <= statuses
    after = plane.describe()
    assert "PendingDeploymentSummary" not in after
    assert "FailureReason" not in after
    assert after["LastDeploymentConfig"] == policy


def test_a_canary_gets_its_slice_bakes_and_then_gets_the_rest(plane: Plane) -> None:
    deployed(plane)
    plane.update(policy=blue_green("CANARY", wait=60, CanarySize=10))
    plane.until(lambda: shares(plane) == {"e": 0.9, "next": 0.1})
    assert serving(plane) == {"e": 2, "next": 2}
    plane.settle(50)
    assert shares(plane) == {"e": 0.9, "next": 0.1}
    plane.until(lambda: shares(plane) == {"next": 1.0}, seconds=30)
    assert plane.status() == "Updating", "the last step bakes too"
    plane.until(lambda: plane.status() == "InService")


def test_linear_steps_shift_equal_shares_and_retire_as_much_of_the_old_fleet(plane: Plane) -> None:
    deployed(plane, count=4)
    plane.update(policy=blue_green("LINEAR", wait=30, LinearStepSize=25))
    seen = []
    old_counts = {}

    def is_over() -> bool:
        new = shares(plane).get("next", 0.0)
        if new and (not seen or seen[-1] != new):
            seen.append(new)
        if new:
            old_counts[new] = serving(plane).get("e", 0)
        return plane.status() == "InService"

    plane.until(is_over)
    assert seen == [0.25, 0.5, 0.75, 1.0]
    assert [old_counts[share] for share in (0.25, 0.5, 0.75)] == [4, 3, 2]


def test_a_rolling_update_never_has_more_than_a_batch_of_surplus(plane: Plane) -> None:
    deployed(plane, count=4)
    plane.update(policy=rolling(25, wait=10))
    most = []

    def is_over() -> bool:
        most.append(sum(serving(plane).values()))
        return plane.status() == "InService"

    plane.until(is_over)
    assert max(most) <= 5
    assert min(most) >= 4
    assert plane.counts() == {SECOND: 4}


def test_without_surge_a_place_is_vacated_before_it_is_filled_again(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 2)
    plane.create(count=2, types=(FIRST,), tags={"headrace:surge": "none"})
    plane.settle()
    plane.configure("next", count=2, types=(FIRST,))
    plane.update()
    plane.until(lambda: plane.status() == "InService")
    assert plane.describe()["EndpointConfigName"] == "next"
    assert plane.counts() == {FIRST: 2}
    assert all(result.endswith("launched") for result in plane.asked()), "nothing was asked for that was not free"


@pytest.mark.parametrize("policy", [None, blue_green("CANARY", wait=5, CanarySize=10), rolling(50)])
def test_a_new_fleet_that_cannot_be_had_leaves_the_old_one_in_service(plane: Plane, policy: dict[str, Any] | None) -> None:
    plane.world.set_capacity(SECOND, 0)
    deployed(plane, VariantInstanceProvisionTimeoutInSeconds=300)
    plane.update(policy=policy)
    plane.until(lambda: plane.status() == "InService")
    picture = plane.describe()
    assert picture["EndpointConfigName"] == "e"
    assert "InsufficientInstanceCapacity" in picture["FailureReason"]
    assert (shares(plane), serving(plane)) == ({"e": 1.0}, {"e": 2})
    plane.settle(10)
    assert plane.live() == {FIRST: 2}


def test_a_model_that_never_starts_undoes_the_update_and_is_no_matter_of_capacity(plane: Plane) -> None:
    deployed(plane, types=(SECOND, THIRD))
    plane.world.set_knob("exit_at_start", 99)
    plane.update()
    plane.until(lambda: plane.status() == "InService")
    assert "did not pass the ping health check" in plane.describe()["FailureReason"]
    assert not [call for call in plane.asked() if call.startswith(THIRD)], "a sick model must not walk the pools"
    plane.settle(10)
    assert plane.live() == {FIRST: 2}


def test_a_later_good_update_clears_the_failure(plane: Plane) -> None:
    plane.world.set_capacity(SECOND, 0)
    deployed(plane, VariantInstanceProvisionTimeoutInSeconds=300)
    plane.update()
    plane.until(lambda: plane.status() == "InService")
    plane.world.set_capacity(SECOND, 9)
    plane.clock.step(2000)
    plane.update()
    plane.until(lambda: plane.status() == "InService")
    assert "FailureReason" not in plane.describe()
    assert plane.describe()["EndpointConfigName"] == "next"


@pytest.mark.parametrize(
    "policy",
    [
        blue_green("CANARY", wait=60, CanarySize=10),
        blue_green("LINEAR", wait=60, LinearStepSize=50),
        rolling(50, wait=60),
    ],
)
def test_an_alarm_that_rings_while_it_bakes_sends_every_call_back(plane: Plane, policy: dict[str, Any]) -> None:
    ring(plane, "OK")
    deployed(plane)
    plane.update(policy={**policy, "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "alarm"}]}})
    plane.until(lambda: Deployment.objects.get().stage == "baking")
    assert shares(plane)["next"] > 0
    ring(plane, "ALARM")
    plane.until(lambda: plane.status() == "InService", seconds=60)
    assert (shares(plane), serving(plane)) == ({"e": 1.0}, {"e": 2})
    assert "alarm" in plane.describe()["FailureReason"]
    plane.settle(10)
    assert plane.live() == {FIRST: 2}


def test_a_rolling_update_whose_way_back_fails_too_keeps_both_revisions_serving(plane: Plane) -> None:
    ring(plane, "OK")
    plane.create(count=2, types=(FIRST,), VariantInstanceProvisionTimeoutInSeconds=300)
    plane.settle()
    plane.configure("next", count=2, types=(SECOND,))
    plane.update(policy={**rolling(50, wait=60), "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "alarm"}]}})
    plane.until(lambda: serving(plane) == {"e": 1, "next": 1})
    plane.world.set_capacity(FIRST, 1)
    plane.until(lambda: plane.live() == {FIRST: 1, SECOND: 1})
    ring(plane, "ALARM")
    plane.until(lambda: plane.status() == "UpdateRollbackFailed")
    assert serving(plane) == {"e": 1, "next": 1}
    assert shares(plane) == {"e": 0.5, "next": 0.5}
    with pytest.raises(ValidationException, match="UpdateRollbackFailed"):
        plane.scale("e", 3)
    plane.configure("third", count=1, types=(THIRD,))
    plane.update(config="third")
    plane.until(lambda: plane.status() == "InService")
    plane.settle(10)
    assert plane.live() == {THIRD: 1}
    assert serving(plane) == {"third": 1}


def test_the_execution_timeout_ends_a_deployment(plane: Plane) -> None:
    deployed(plane)
    plane.world.set_knob("boot_seconds", 3000)
    plane.update(policy=blue_green(MaximumExecutionTimeoutInSeconds=600))
    plane.until(lambda: plane.status() == "InService", seconds=700)
    assert "MaximumExecutionTimeoutInSeconds" in plane.describe()["FailureReason"]


def test_the_old_fleet_is_kept_for_the_termination_wait(plane: Plane) -> None:
    deployed(plane)
    plane.update(policy=blue_green(TerminationWaitInSeconds=120))
    plane.until(lambda: shares(plane) == {"next": 1.0})
    plane.settle(100)
    assert serving(plane) == {"e": 2, "next": 2}
    plane.until(lambda: plane.status() == "InService", seconds=40)
    assert serving(plane) == {"next": 2}


def test_retained_properties_are_carried_over_by_variant_name(plane: Plane) -> None:
    deployed(plane, count=1)
    plane.scale("e", 3)
    plane.settle()
    plane.update(RetainAllVariantProperties=True)
    plane.until(lambda: plane.status() == "InService")
    assert plane.counts() == {SECOND: 3}


def test_an_excluded_property_is_the_configurations(plane: Plane) -> None:
    deployed(plane, count=1)
    plane.scale("e", 3)
    plane.settle()
    excluded = [{"VariantPropertyType": "DesiredInstanceCount"}]
    plane.update(RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=excluded)
    plane.until(lambda: plane.status() == "InService")
    assert plane.counts() == {SECOND: 1}


def test_a_retained_deployment_config_is_the_one_last_given(plane: Plane) -> None:
    deployed(plane)
    plane.update(policy=blue_green("CANARY", wait=1, CanarySize=10))
    plane.until(lambda: plane.status() == "InService")
    plane.configure("third", types=(THIRD,))
    plane.update(config="third", RetainDeploymentConfig=True)
    assert Deployment.objects.get().strategy["rollout"] == "CANARY"


def test_an_endpoint_is_deleted_in_mid_deployment_with_both_its_fleets(plane: Plane) -> None:
    deployed(plane)
    plane.update(policy=blue_green("CANARY", wait=600, CanarySize=10))
    plane.until(lambda: "next" in shares(plane))
    plane.call("DeleteEndpoint", EndpointName="e")
    plane.settle(20)
    assert not plane.exists()
    assert plane.live() == {}


def test_an_instance_of_the_old_fleet_that_dies_meanwhile_is_replaced(plane: Plane) -> None:
    deployed(plane)
    plane.update(policy=blue_green("CANARY", wait=120, CanarySize=10))
    plane.until(lambda: "next" in shares(plane))
    plane.world.fail(plane.world.live()[0].provider_id, "died")
    plane.until(lambda: serving(plane) == {"e": 1, "next": 2}, seconds=20)
    plane.until(lambda: serving(plane) == {"e": 2, "next": 2}, seconds=20)
    plane.until(lambda: plane.status() == "InService")


def test_an_update_is_refused_while_one_runs_and_changes_nothing(plane: Plane) -> None:
    deployed(plane)
    plane.update()
    with pytest.raises(ValidationException, match="Cannot update in-progress endpoint"):
        plane.update()
    assert Endpoint.objects.get().revisions == 2


def test_bad_wishes_are_refused_by_name_and_store_nothing(plane: Plane) -> None:
    deployed(plane)
    plane.configure("queue", asynchronous=True)
    refused = {
        "Could not find endpoint configuration": {"config": "nothing"},
        "real-time": {"config": "queue"},
        "CanarySize": {"policy": blue_green("CANARY", wait=1)},
        "at most one of BlueGreenUpdatePolicy": {"policy": {**blue_green(), **rolling()}},
        "must exceed the sum of all waits": {
            "policy": blue_green("CANARY", wait=400, CanarySize=10, MaximumExecutionTimeoutInSeconds=600)
        },
        "between 5 and 50": {"policy": rolling(60)},
        "ExcludeRetainedVariantProperties": {
            "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}]
        },
        "RetainDeploymentConfig": {"policy": rolling(), "RetainDeploymentConfig": True},
        '"silent"': {"policy": {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "silent"}]}}},
    }
    for text, wish in refused.items():
        with pytest.raises(ValidationException, match=text):
            plane.update(**wish)
    assert plane.status() == "InService"
    assert EndpointVariant.objects.count() == 1
