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
from workers.providers import registry
from workers.providers.base import LaunchRequest, ProviderInstance
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

PATIENCE_SECONDS = 60.0


class MeetingPlace(SimulatedProvider):
    """A provider whose launches wait until no worker is anywhere else, so that calls that can be concurrent are.

    Workers say when they come and go (see `all_at_once`); a launch that is none of theirs does not wait.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._changed = threading.Condition()
        self._elsewhere = self._here = self._meetings = 0

    def expect(self, workers: int) -> None:
        """So many begin to work."""
        with self._changed:
            self._elsewhere += workers

    def leave(self) -> None:
        """One of them has ended."""
        with self._changed:
            self._elsewhere -= 1
            self._let_go_if_all_are_here()

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        with self._changed:
            if self._elsewhere:
                self._elsewhere, self._here, meeting = self._elsewhere - 1, self._here + 1, self._meetings
                self._let_go_if_all_are_here()
                assert self._changed.wait_for(lambda: self._meetings > meeting, PATIENCE_SECONDS)
        return super().launch(request)

    def _let_go_if_all_are_here(self) -> None:
        if self._here and not self._elsewhere:
            self._elsewhere, self._here = self._here, 0
            self._meetings += 1
            self._changed.notify_all()


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
    provider = registry.get("simulated")
    meeting = provider if isinstance(provider, MeetingPlace) else None
    if meeting is not None:
        meeting.expect(len(ids))

    def work(endpoint_id: UUID) -> None:
        try:
            start.wait(PATIENCE_SECONDS)
            reconcile(endpoint_id)
        finally:
            connection.close()
            if meeting is not None:
                meeting.leave()

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
