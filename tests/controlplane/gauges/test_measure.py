"""What is found, in a real database: each gauge moves with the fact that it tells of, and with no other."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.core.ids import new_uuid
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import CapacityMark, GatewayHeartbeat, Instance
from controlplane.fleet.states import InstanceStage
from controlplane.gateway.tally import Tally
from controlplane.gauges import reading
from controlplane.gauges.measure import measure
from controlplane.gauges.reading import Backlog, FailingVariant, ShortVariant
from controlplane.invocations.models import AsyncInvocation, InvocationState
from controlplane.metrics import store
from controlplane.metrics.series import OWN_NAMESPACE, MetricSetKey, bucket_start
from controlplane.observability.models import Heartbeat
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OrphanState
from controlplane.routing.table import VariantRoute
from tests.engines_plugin import ACCOUNT
from tests.workers.plane import FIRST, SECOND, Plane
from workers.loop import lease
from workers.metrics import backlog


def count_calls(now: datetime, endpoint: str, calls: int, failed: int, ago: float = 0.0) -> None:
    """Write what a gateway would have counted."""
    tally = Tally()
    variant = VariantRoute("v", 1.0, "RANDOM", ())
    for number in range(calls):
        tally.add(variant, is_async=False)
        if number < failed:
            tally.fail(500, is_model_error=True)
    key = MetricSetKey(ACCOUNT, OWN_NAMESPACE, {"EndpointName": endpoint, "VariantName": "v"})
    of_config = MetricSetKey(ACCOUNT, OWN_NAMESPACE, {**key.dimensions, "EndpointConfigName": "c"})
    start = bucket_start(now.timestamp() - ago)
    buckets = [store.Bucket(each, start, f"gateway:{new_uuid().hex}", tally.metrics()) for each in (key, of_config)]
    with connection.cursor() as cursor:
        cursor.execute(store.WRITE, [store.rows(buckets)])


def queue(plane: Plane, name: str, seconds: float) -> None:
    """One request that has waited for so long, sampled as the scheduler does."""
    now = plane.clock.now()
    AsyncInvocation.objects.create(
        id=new_uuid(),
        account_id=ACCOUNT,
        endpoint_id=Endpoint.objects.get(name=name).id,
        endpoint_name=name,
        inference_id="i",
        state=InvocationState.QUEUED,
        accepted_at=now - timedelta(seconds=seconds),
        expires_at=now + timedelta(hours=1),
        timeout_seconds=60,
        due_at=now,
        output_location="s3://bucket/out/i",
    )
    backlog.sample(now)


def orphan(now: datetime, **changes: Any) -> None:
    """An instance that no endpoint has."""
    facts = {"provider": "simulated", "provider_id": new_uuid().hex, "launched_at": now, "token": "t", "found_at": now}
    where = {"instance_type": FIRST, "zone": "a", "seen_at": now, "state_since": now, "hourly_price": 2.5}
    Orphan.objects.create(**facts, **where, **changes)


def test_an_idle_installation_is_all_noughts(plane: Plane) -> None:
    found = measure(plane.clock.now())
    assert set(found.fleet.endpoints.values()) == {0}
    assert set(found.fleet.instances.values()) == {0}
    assert (found.fleet.short, found.fleet.short_count, found.fleet.hourly_price) == ((), 0, 0.0)
    assert (found.traffic.calls, found.traffic.failing, found.traffic.backlogs) == (0, (), ())
    assert found.machinery.live == {"gateway": 0, "scheduler": 0, "worker": 0}
    assert found.machinery.table_age_seconds is None


def test_a_variant_is_short_for_as_long_as_it_lacks_instances(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 1)
    plane.world.set_capacity(SECOND, 0)
    plane.create(count=2)
    plane.settle(10)
    found = measure(plane.clock.now()).fleet
    assert found.short == (ShortVariant(ACCOUNT, "e", "v", 2, 1),)
    assert found.endpoints["Creating"] == 1
    assert found.instances["ready"] == 1
    assert SECOND in found.closed
    plane.world.set_capacity(SECOND, 5)
    CapacityMark.objects.all().delete()
    plane.until(lambda: plane.status() == "InService")
    found = measure(plane.clock.now()).fleet
    assert (found.short, found.short_count, found.endpoints["InService"]) == ((), 0, 1)


def test_an_endpoint_that_failed_or_is_being_deleted_is_not_short(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 0)
    plane.world.set_capacity(SECOND, 0)
    plane.create(count=1)
    assert measure(plane.clock.now()).fleet.short_count == 1
    plane.until(lambda: plane.status() == "Failed", seconds=4000, step=60)
    assert measure(plane.clock.now()).fleet.short_count == 0


def test_single_endpoints_are_bounded_and_totals_are_not(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.gauges.measure.SERIES", 2)
    for number, count in enumerate((1, 3, 2)):
        plane.create(f"e{number}", count=count)
    now = plane.clock.now()
    for number, failed in enumerate((1, 3, 2)):
        count_calls(now, f"e{number}", 3, failed)
    found = measure(now)
    assert [each.endpoint for each in found.fleet.short] == ["e1", "e2"]
    assert found.fleet.short_count == 3
    assert [each.endpoint for each in found.traffic.failing] == ["e1", "e2"]
    assert (found.traffic.calls, found.traffic.failed) == (9, 6)


def test_failures_are_of_the_last_minute_and_counted_once(plane: Plane) -> None:
    now = plane.clock.now()
    count_calls(now, "good", 4, 0)
    count_calls(now, "bad", 5, 2, ago=30)
    count_calls(now, "bad", 3, 3)
    count_calls(now, "bad", 7, 7, ago=90)
    found = measure(now).traffic
    assert found.failing == (FailingVariant(ACCOUNT, "bad", "v", 8, 5),)
    assert (found.calls, found.failed) == (12, 5)


def test_a_backlog_is_told_from_its_newest_sample_until_samples_run_out(plane: Plane) -> None:
    plane.create(asynchronous=True)
    queue(plane, "e", 900)
    found = measure(plane.clock.now()).traffic
    assert found.backlogs == (Backlog(ACCOUNT, "e", 1, 900.0),)
    assert (found.waiting, found.oldest_seconds) == (1, 900.0)
    plane.clock.step(60)
    assert measure(plane.clock.now()).traffic.backlogs == ()


def test_ends_are_overdue_after_five_minutes(plane: Plane) -> None:
    plane.create()
    plane.until(lambda: plane.status() == "InService")
    now = plane.clock.now()
    Instance.objects.update(stage=InstanceStage.TERMINATING, stage_since=now)
    orphan(now, state=OrphanState.ENDING, asked_at=now)
    orphan(now, state=OrphanState.FOUND)
    orphan(now, state=OrphanState.GONE)
    assert measure(now + timedelta(seconds=299)).leaks.overdue_ends == 0
    found = measure(now + timedelta(seconds=301)).leaks
    assert (found.overdue_ends, found.orphans, found.orphans_hourly_price) == (2, {"found": 1, "ending": 1}, 5.0)


def test_a_sweep_that_is_held_says_so(plane: Plane) -> None:
    assert not measure(plane.clock.now()).leaks.is_sweep_held
    Sweep.objects.create(held_since=plane.clock.now(), held_why="restored")
    assert measure(plane.clock.now()).leaks.is_sweep_held


def test_processes_and_tables_age(plane: Plane) -> None:
    now = plane.clock.now()
    Heartbeat.objects.create(role="worker", process_id="a", seen_at=now)
    Heartbeat.objects.create(role="worker", process_id="b", seen_at=now - timedelta(seconds=16))
    GatewayHeartbeat.objects.create(gateway_id="a", seen_at=now, table_age_seconds=2.5)
    GatewayHeartbeat.objects.create(gateway_id="b", seen_at=now - timedelta(seconds=16), table_age_seconds=900.0)
    plane.create()
    plane.clock.step(42)
    assert measure(now).machinery.live["worker"] == 1
    assert measure(now).machinery.table_age_seconds == 2.5
    assert measure(plane.clock.now()).machinery.overdue_look_seconds == pytest.approx(42, abs=1)


def test_an_endpoint_that_somebody_holds_is_not_overdue(plane: Plane) -> None:
    plane.create()
    plane.clock.step(42)
    held = lease.claim(Endpoint.objects.get().id)
    assert held is not None
    assert measure(plane.clock.now()).machinery.overdue_look_seconds == 0.0
    plane.clock.step(lease.CLAIM_SECONDS + 1)
    assert measure(plane.clock.now()).machinery.overdue_look_seconds > 42


def test_a_look_costs_as_many_queries_with_many_endpoints_as_with_one(plane: Plane) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            measure(plane.clock.now())
        return len(seen)

    plane.create("e0")
    one = queries()
    for number in range(1, 6):
        plane.create(f"e{number}")
    assert queries() == one <= 20
    assert reading.SERIES == 100
