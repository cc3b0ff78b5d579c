"""What waits at asynchronous endpoints, as alarms and callers see it."""

from datetime import timedelta

import pytest

from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint
from controlplane.invocations.models import AsyncInvocation, InvocationState
from controlplane.metrics.models import MetricBucket, MetricSet
from controlplane.metrics.statistics import statistic
from tests.fakes.clock import START
from tests.workers.plane import FIRST, Plane
from workers.metrics.backlog import Backlog, gauges, sample


def values(backlog: Backlog, seconds: float = 30) -> dict[str, float | None]:
    """The sample's numbers, this long after the start."""
    found = gauges(backlog, START + timedelta(seconds=seconds))
    return {name: statistic(next(iter(units.values())), "Average") for name, units in found.items()}


def test_a_backlog_is_divided_among_its_instances() -> None:
    assert values(Backlog("a", "e", 9, START, 3)) == {
        "ApproximateBacklogSize": 9,
        "ApproximateBacklogSizePerInstance": 3,
        "ApproximateAgeOfOldestRequest": 30,
        "HasBacklogWithoutCapacity": 0,
    }


def test_a_backlog_without_instances_says_so() -> None:
    found = values(Backlog("a", "e", 9, START, 0))
    assert (found["ApproximateBacklogSizePerInstance"], found["HasBacklogWithoutCapacity"]) == (9, 1)


@pytest.mark.parametrize("instances", [0, 2])
def test_no_backlog_is_zero(instances: int) -> None:
    assert set(values(Backlog("a", "e", 0, None, instances)).values()) == {0}


def invocation(endpoint: Endpoint, state: InvocationState, seconds: float) -> None:
    """One invocation that was accepted so long after the start."""
    moment = START + timedelta(seconds=seconds)
    AsyncInvocation.objects.create(
        id=new_uuid(),
        account_id=endpoint.account_id,
        endpoint_id=endpoint.id,
        endpoint_name=endpoint.name,
        inference_id="i",
        state=state,
        accepted_at=moment,
        expires_at=moment + timedelta(hours=6),
        timeout_seconds=900,
        due_at=moment,
        output_location="s3://bucket/out",
    )


def test_what_waits_and_what_runs_is_sampled_once_however_many_sample(plane: Plane) -> None:
    plane.create("queue", asynchronous=True, count=2, types=(FIRST,))
    plane.create("calls", types=(FIRST,))
    plane.settle(10)
    endpoint = Endpoint.objects.get(name="queue")
    invocation(endpoint, InvocationState.RUNNING, 1)
    for _ in range(3):
        invocation(endpoint, InvocationState.QUEUED, 5)
    invocation(endpoint, InvocationState.COMPLETED, 0)
    for _ in range(2):
        assert sample(plane.clock.now()) == 1
    (row,) = MetricSet.objects.all()
    assert (row.namespace, row.dimensions) == ("AWS/SageMaker", {"EndpointName": "queue"})
    (bucket,) = MetricBucket.objects.all()
    found = {name: next(iter(units.values()))[:2] for name, units in bucket.document.items()}
    age = (plane.clock.now() - START).total_seconds() - 1
    assert found == {
        "ApproximateBacklogSize": [1, 4],
        "ApproximateBacklogSizePerInstance": [1, 2],
        "ApproximateAgeOfOldestRequest": [1, pytest.approx(age)],
        "HasBacklogWithoutCapacity": [1, 0],
    }


def test_a_request_that_was_redriven_waits_since_then(plane: Plane) -> None:
    plane.create("queue", asynchronous=True, count=1, types=(FIRST,))
    plane.settle(10)
    invocation(Endpoint.objects.get(name="queue"), InvocationState.QUEUED, -86_400)
    AsyncInvocation.objects.update(redriven_at=START + timedelta(seconds=4))
    sample(plane.clock.now())
    (bucket,) = MetricBucket.objects.all()
    (values_,) = bucket.document["ApproximateAgeOfOldestRequest"].values()
    assert values_[1] == pytest.approx((plane.clock.now() - START).total_seconds() - 4)
