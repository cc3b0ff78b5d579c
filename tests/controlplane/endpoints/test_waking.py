"""Waking by the backlog: an endpoint without instances gets some once something waits for it."""

from datetime import timedelta
from uuid import UUID

import pytest

from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.waking import HOLD_DOWN_SECONDS, TAG, wake_due
from controlplane.invocations.models import AsyncInvocation
from tests.workers.plane import FIRST, Plane


def asleep(plane: Plane, *, wake: str | None = "2", **config: object) -> Endpoint:
    """An asynchronous endpoint that was scaled to zero."""
    plane.create(asynchronous=True, types=(FIRST,), tags={TAG: wake} if wake else {}, **config)
    plane.settle(10)
    plane.scale("e", 0)
    plane.settle(10)
    assert (plane.status(), plane.live()) == ("InService", {})
    return Endpoint.objects.get(name="e")


def queue(plane: Plane, endpoint: Endpoint, **changes: object) -> None:
    """One request that waits for it."""
    now = plane.clock.now()
    values = {
        "id": new_uuid(),
        "account_id": endpoint.account_id,
        "endpoint_id": endpoint.id,
        "endpoint_name": endpoint.name,
        "inference_id": "i",
        "state": "queued",
        "accepted_at": now,
        "expires_at": now + timedelta(hours=6),
        "timeout_seconds": 900,
        "due_at": now,
        "output_location": "s3://bucket/out",
        **changes,
    }
    AsyncInvocation.objects.create(**values)


def test_a_request_wakes_the_endpoint_that_asks_for_it_once_and_says_so(plane: Plane) -> None:
    endpoint = asleep(plane)
    assert wake_due(plane.clock.now()) == 0
    queue(plane, endpoint)
    assert wake_due(plane.clock.now()) == 1
    assert wake_due(plane.clock.now()) == 0
    assert plane.story()[-1] == "WokenByBacklog"
    plane.settle(10)
    assert (plane.status(), plane.counts()) == ("InService", {FIRST: 2})


def test_no_wake_up_is_lost_around_the_very_moment_of_falling_asleep(plane: Plane) -> None:
    endpoint = asleep(plane)
    for jitter in (0.0, 0.25, 0.5, 1.0):
        queue(plane, endpoint)
        wake_due(plane.clock.now())
        plane.settle(10)
        plane.scale("e", 0)
        plane.settle(jitter)
        AsyncInvocation.objects.all().delete()
        queue(plane, endpoint)
        plane.until(lambda: wake_due(plane.clock.now()) == 1, seconds=20, step=0.25)
        plane.settle(10)
        assert plane.counts() == {FIRST: 2}
        AsyncInvocation.objects.all().delete()
        plane.scale("e", 0)
        plane.settle(10)


@pytest.mark.parametrize(
    "changes", [{"state": "completed"}, {"failure_kind": "abandoned"}, {"endpoint_id": UUID(int=1)}], ids=str
)
def test_only_what_waits_for_a_model_wakes(plane: Plane, changes: dict[str, object]) -> None:
    endpoint = asleep(plane)
    queue(plane, endpoint, **changes)
    assert wake_due(plane.clock.now()) == 0


def test_one_that_does_not_ask_sleeps_on(plane: Plane) -> None:
    endpoint = asleep(plane, wake=None)
    queue(plane, endpoint)
    assert wake_due(plane.clock.now()) == 0


def test_one_that_has_instances_or_is_being_changed_is_left_alone(plane: Plane) -> None:
    plane.create(asynchronous=True, types=(FIRST,), tags={TAG: "2"})
    endpoint = Endpoint.objects.get(name="e")
    queue(plane, endpoint)
    assert wake_due(plane.clock.now()) == 0
    plane.settle(10)
    assert wake_due(plane.clock.now()) == 0


def test_after_a_search_in_vain_it_rests_before_the_next(plane: Plane) -> None:
    endpoint = asleep(plane, VariantInstanceProvisionTimeoutInSeconds=300)
    plane.world.set_capacity(FIRST, 0)
    queue(plane, endpoint)
    assert wake_due(plane.clock.now()) == 1
    plane.until(lambda: plane.status() == "InService")
    assert plane.describe()["FailureReason"]
    assert wake_due(plane.clock.now()) == 0
    plane.clock.step(HOLD_DOWN_SECONDS)
    assert wake_due(plane.clock.now()) == 1
