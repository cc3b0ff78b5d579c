"""Many workers at once: threads that reconcile in parallel, each with a connection of its own, over one real database."""

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from django.db import connection

from controlplane.endpoints.models import Endpoint
from tests.fakes.clock import FakeClock
from tests.workers.plane import Plane
from workers.loop.lease import due_endpoints
from workers.loop.run import reconcile
from workers.providers.base import LaunchRequest, ProviderInstance
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

MEETING_SECONDS = 0.4


class MeetingPlace(SimulatedProvider):
    """A provider that lets every launch wait a moment for the others, so that calls that can be concurrent are."""

    def __init__(self, world: World, crowd: int) -> None:
        super().__init__(world)
        self._crowd = crowd
        self._all_here = threading.Event()
        self._here = 0
        self._lock = threading.Lock()

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        with self._lock:
            self._here += 1
            if self._here >= self._crowd:
                self._all_here.set()
        self._all_here.wait(MEETING_SECONDS)
        return super().launch(request)


class SlowProvider(SimulatedProvider):
    """A provider whose launch calls take some time by the clock."""

    def __init__(self, world: World, clock: FakeClock, seconds: float) -> None:
        super().__init__(world)
        self._clock = clock
        self._seconds = seconds

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        self._clock.step(self._seconds)
        return super().launch(request)


def all_at_once(endpoint_ids: Iterable[UUID]) -> None:
    """Reconcile each endpoint in a thread of its own, all started together."""
    ids = list(endpoint_ids)
    start = threading.Barrier(len(ids))

    def work(endpoint_id: UUID) -> None:
        try:
            start.wait(30)
            reconcile(endpoint_id)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(ids)) as pool:
        list(pool.map(work, ids))


def ids_of(names: Iterable[str]) -> list[UUID]:
    """The endpoints of these names."""
    return list(Endpoint.objects.filter(name__in=list(names)).values_list("id", flat=True))


def settle_together(plane: Plane, seconds: float = 3.0, step: float = 0.25) -> None:
    """Let time pass, working on whatever is due all at once."""
    for _ in range(int(seconds / step) + 1):
        due = [endpoint_id for endpoint_id, _ in due_endpoints(plane.clock.now(), 100)]
        if due:
            all_at_once(due)
        plane.clock.step(step)
