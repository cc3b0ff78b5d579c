"""The dispatcher as a whole: turns, shares and limits, over the real database and a real container."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.invocations.models import AsyncInvocation
from controlplane.metrics.models import MetricBucket, MetricSet
from controlplane.routing.models import RoutingSnapshot
from controlplane.routing.table import Target
from tests.controlplane.gateway.site import Container, wait_for
from tests.workers.invocations.site import database_url, instance_at, object_at, queue_up, serve
from tests.workers.outage import cut_connections
from workers.invocations import crew, reach
from workers.invocations.dispatcher import Dispatcher
from workers.invocations.plan import GIVEN_BACK_TEXT
from workers.invocations.rounds import Rounds
from workers.residents import Residents

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts dispatchers, each on a loop and in a thread of its own; gives what stops it before the end of the test."""
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, database_url=database_url()))
    started: list[Residents] = []

    def start() -> Callable[[], None]:
        resident = Residents()
        started.append(resident)
        resident.start()

        def stop() -> None:
            started.remove(resident)
            resident.stop()

        return stop

    yield start
    for each in started:
        each.stop()


def listeners() -> int:
    """How many workers hear what the others tell them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'")
        return int(cursor.fetchone()[0])


def states(**which: Any) -> Counter[str]:
    return Counter(AsyncInvocation.objects.filter(**which).values_list("state", flat=True))


def test_a_long_queue_of_long_requests_keeps_nobody_else_waiting(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    busy, idle = containers("busy"), containers("idle")
    hog, other = serve("hog", busy, max_concurrent=1000), serve("other", idle, max_concurrent=1000)
    for _ in range(400):
        queue_up(endpoint_id=hog, endpoint_name="hog", custom_attributes="mode=hang:60")
    worker()
    wait_for(lambda: states(endpoint_id=hog)["running"] >= 250)
    row = queue_up(b"quick", endpoint_id=other, endpoint_name="other")
    wait_for(lambda: states(endpoint_id=other)["completed"] == 1)
    assert object_at(row.output_location) == b"quick"
    assert states(endpoint_id=hog)["queued"] > 100


def test_requests_of_one_endpoint_are_taken_in_order(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    model = containers("model")
    endpoint_id = serve("one-by-one", model, max_concurrent=1)
    start = clock.now() - timedelta(seconds=60)
    for place in range(8):
        accepted_at = start + timedelta(milliseconds=place)
        queue_up(endpoint_id=endpoint_id, accepted_at=accepted_at, inference_id=f"request {place}")
    worker()
    wait_for(lambda: states(endpoint_id=endpoint_id)["completed"] == 8)
    assert [line["inference_id"] for line in model.received()] == [f"request {place}" for place in range(8)]


def test_two_workers_never_ask_more_of_an_instance_than_the_endpoint_allows(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    models = containers("first"), containers("second")
    endpoint_id = serve("capped", *models, max_concurrent=2)
    for _ in range(24):
        queue_up(endpoint_id=endpoint_id, custom_attributes="mode=delay:0.1")
    worker()
    worker()
    wait_for(lambda: states(endpoint_id=endpoint_id)["completed"] == 24, 30)
    for model in models:
        under_way = most = 0
        for line in model.journal():
            under_way += 1 if line["event"] == "received" else -1
            most = max(most, under_way)
        assert 1 <= most <= 2
    assert sum(len(model.received()) for model in models) == 24


def test_a_request_whose_instance_cannot_be_reached_goes_to_another_and_so_do_those_after_it(
    worker: Callable[[], None], containers: Callable[[str], Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of two workers claims it: what one has found out the other has been told."""
    monkeypatch.setattr(reach, "FIRST_SECONDS", 60.0)
    dead, model = containers("dead"), containers("model")
    dead.process.kill()
    dead.process.wait()
    endpoint_id = serve("half", dead, model, max_concurrent=1)
    worker()
    worker()
    wait_for(lambda: listeners() == 2)
    claimed = []
    for done in range(1, 4):
        row = queue_up(endpoint_id=endpoint_id)
        wait_for(lambda done=done: states(endpoint_id=endpoint_id)["completed"] == done)
        row.refresh_from_db()
        claimed.append([detail for _, step, _, detail in row.timeline if step == "claimed"])
        assert row.attempts == 1
    first, second = (str(instance_at(each.address)) for each in (dead, model))
    assert claimed == [[first, second], [second], [second]]


def test_what_waits_without_instances_waits_and_then_is_done(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    model = containers("model")
    endpoint_id = serve("asleep")
    queue_up(endpoint_id=endpoint_id)
    worker()
    with pytest.raises(AssertionError, match="not within"):
        wait_for(lambda: states(endpoint_id=endpoint_id)["queued"] == 0, 2)
    target = Target(str(instance_at(model.address)), model.address, "ml.m5.large", False)
    snapshot = RoutingSnapshot.objects.get(endpoint_id=endpoint_id)
    assert snapshot.document is not None
    snapshot.document["variants"][0]["targets"] = [target.__dict__]
    snapshot.save()
    wait_for(lambda: states(endpoint_id=endpoint_id)["completed"] == 1)


def test_what_happened_is_measured_by_variant(worker: Callable[[], None], containers: Callable[[str], Container]) -> None:
    endpoint_id = serve("measured", containers("model"))
    queue_up(endpoint_id=endpoint_id, endpoint_name="measured")
    queue_up(endpoint_id=endpoint_id, endpoint_name="measured", custom_attributes="mode=http:400")
    expired = clock.now() - timedelta(hours=1)
    queue_up(endpoint_id=endpoint_id, endpoint_name="measured", accepted_at=expired, expires_at=expired)
    worker()
    wait_for(lambda: states(endpoint_id=endpoint_id) == {"completed": 1, "failed": 1, "expired": 1})

    def found() -> dict[str, float]:
        sets = MetricSet.objects.filter(dimensions={"EndpointName": "measured", "VariantName": "main"}).values("id")
        rows = MetricBucket.objects.filter(metric_set_id__in=sets)
        sums: Counter[str] = Counter()
        for row in rows:
            for name, units in row.document.items():
                sums[name] += sum(values[0] for values in units.values())
        return dict(sums)

    expected = {"InvocationsProcesssed": 3, "InvocationFailures": 1, "ExpiredRequests": 1, "TimeInBacklog": 2}
    expected |= {"TotalProcessingTime": 3, "ResponseUploadLatency": 1, "ModelLatency": 2}
    assert wait_for(lambda: expected.items() <= found().items()), found()
    assert "Invocations" not in found()


def test_failures_without_a_model_are_told_in_places_of_their_own(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    """However many requests of a deleted endpoint are to be told, they take no place from those that have a model."""
    gone = new_uuid()
    for _ in range(300):
        queue_up(endpoint_id=gone, failure_location="")
    other = serve("other", containers("model"))
    queue_up(endpoint_id=other)
    worker()
    wait_for(lambda: states(endpoint_id=other)["completed"] == 1)
    wait_for(lambda: states(endpoint_id=gone)["failed"] == 300, 30)


def test_a_call_that_runs_while_the_database_is_started_anew_is_made_once(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    model = containers("model")
    endpoint_id = serve("cut", model)
    row = queue_up(b"hello", endpoint_id=endpoint_id, custom_attributes="mode=delay:1")
    worker()
    wait_for(model.received)
    cut_connections()
    connection.close()
    wait_for(lambda: states(endpoint_id=endpoint_id)["completed"] == 1)
    row.refresh_from_db()
    assert (row.attempts, len(model.received()), object_at(row.output_location)) == (1, 1, b"hello")
    again = queue_up(b"again", endpoint_id=endpoint_id)
    wait_for(lambda: object_at(again.output_location) == b"again")


def test_a_dispatcher_that_is_stopped_gives_back_what_it_could_not_end(
    worker: Callable[[], Callable[[], None]], containers: Callable[[str], Container], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "GRACE_SECONDS", 0.1)
    endpoint_id = serve("stopped", containers("model"))
    row = queue_up(endpoint_id=endpoint_id, custom_attributes="mode=hang:60")
    stop = worker()
    wait_for(lambda: states(endpoint_id=endpoint_id)["running"] == 1)
    stop()
    row.refresh_from_db()
    assert (row.state, row.attempts, row.lease_token) == ("queued", 1, None)


def test_a_dispatcher_that_is_stopped_ends(worker: Callable[[], None]) -> None:
    async def work() -> None:
        dispatcher = Dispatcher()
        running = asyncio.create_task(dispatcher.run())
        await asyncio.wait([running], timeout=0.2)
        dispatcher.stop()
        await asyncio.wait_for(running, 30)

    asyncio.run(work())


def test_a_round_that_fails_is_followed_by_the_next_one(
    worker: Callable[[], None],
    containers: Callable[[str], Container],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the fault is: a worker that claims nothing any more, and says nothing of it, keeps everybody waiting."""
    faults = [RuntimeError("a fault of the dispatcher itself")]
    scan = Rounds._scan

    async def scanned(self: Rounds) -> None:
        if faults:
            raise faults.pop()
        await scan(self)

    monkeypatch.setattr(Rounds, "_scan", scanned)
    endpoint_id = serve("stumbling", containers("model"))
    row = queue_up(b"all the same", endpoint_id=endpoint_id, endpoint_name="stumbling")
    worker()
    wait_for(lambda: states(endpoint_id=endpoint_id)["completed"] == 1)
    assert object_at(row.output_location) == b"all the same"
    assert "a fault of the dispatcher itself" in caplog.text


def test_an_endpoint_whose_turn_somebody_holds_for_ever_keeps_no_other_waiting(
    worker: Callable[[], None], containers: Callable[[str], Container], caplog: pytest.LogCaptureFixture
) -> None:
    """As a worker does that was stopped in the middle of an answer, until its connection is given up."""
    model = containers("model")
    held, free = serve("held", model), serve("free", model)
    with psycopg.connect(database_url()) as frozen:
        frozen.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s::uuid::text, 0))", [held])
        queue_up(endpoint_id=held, endpoint_name="held")
        worker()
        wait_for(lambda: f"nothing can be claimed from endpoint {held}" in caplog.text)
        queue_up(endpoint_id=free, endpoint_name="free")
        wait_for(lambda: states(endpoint_id=free)["completed"] == 1)
        assert states(endpoint_id=held)["queued"] == 1
    wait_for(lambda: states(endpoint_id=held)["completed"] == 1)


def test_what_is_claimed_and_cannot_be_run_is_given_back_and_keeps_no_other_waiting(
    worker: Callable[[], None], containers: Callable[[str], Container]
) -> None:
    """By a routing document that cannot be read, say."""
    model = containers("model")
    broken, sound = serve("broken", model), serve("sound", model)
    snapshot = RoutingSnapshot.objects.get(endpoint_id=broken)
    del snapshot.document["status"]
    snapshot.save(update_fields=["document"])
    row = queue_up(endpoint_id=broken, endpoint_name="broken")
    worker()
    wait_for(lambda: AsyncInvocation.objects.get(pk=row.pk).attempts >= 1)
    queue_up(endpoint_id=sound, endpoint_name="sound")
    wait_for(lambda: states(endpoint_id=sound)["completed"] == 1)
    wait_for(lambda: GIVEN_BACK_TEXT in [detail for *_, detail in AsyncInvocation.objects.get(pk=row.pk).timeline])
