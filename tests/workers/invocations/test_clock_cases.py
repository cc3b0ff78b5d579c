"""A worker's host whose clock jumps by an hour: no request ends early, is called twice, or waits for the clock."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings

from controlplane.core import clock
from controlplane.core.clock import CarriedClock, SystemClock
from controlplane.invocations.models import AsyncInvocation
from controlplane.observability.models import Heartbeat
from tests.controlplane.gateway.site import Container, wait_for
from tests.fakes.clock import WrongClock
from tests.workers.invocations.site import database_url, queue_up, serve
from workers.residents import Residents

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = 3600.0


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[WrongClock], None]]:
    """Starts a worker on a host that has this clock, and uses it as workers do."""
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, database_url=database_url()))
    previous, residents = clock.use(SystemClock()), Residents()

    def start(host: WrongClock) -> None:
        clock.use(CarriedClock(host))
        residents.start()
        wait_for(lambda: Heartbeat.objects.filter(role="worker").exists())

    yield start
    residents.stop()
    clock.use(previous)


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])
def test_a_jump_ends_no_request_early_and_calls_none_twice(
    worker: Callable[[WrongClock], None], containers: Callable[[str], Container], jump: float
) -> None:
    host = WrongClock()
    worker(host)
    model, soon = containers("model"), SystemClock().now() + timedelta(seconds=HOUR / 2)
    endpoint_id = serve("jumpy", model, max_concurrent=1)
    queue_up(endpoint_id=endpoint_id, inference_id="long", custom_attributes="mode=delay:3")
    wait_for(model.received)
    for place in range(3):
        queue_up(endpoint_id=endpoint_id, inference_id=str(place), expires_at=soon)
    host.ahead = jump
    wait_for(lambda: AsyncInvocation.objects.filter(state="completed").count() == 4)
    assert [line["inference_id"] for line in model.received()] == ["long", "0", "1", "2"]


def test_a_worker_whose_host_is_wrong_from_the_start_is_told_the_time(worker: Callable[[WrongClock], None]) -> None:
    host = WrongClock()
    host.ahead = HOUR
    worker(host)
    wait_for(lambda: abs((clock.now() - SystemClock().now()).total_seconds()) < 60)
