"""Requests that wait alone: claimed and run by the notification itself, or left to the rounds."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.gateway.counting import Call
from controlplane.invocations.models import AsyncInvocation
from controlplane.routing.table import encode
from tests.workers.invocations.site import Bench, bench, do, instance_at, queue_up
from tests.workers.invocations.test_crew import Runs, leased
from workers.invocations import at_once
from workers.invocations.appetite import Appetite
from workers.invocations.at_once import AtOnce
from workers.invocations.crew import Crew
from workers.invocations.known_routes import KnownRoutes, Place
from workers.invocations.leased import Leased
from workers.invocations.reach import Reach

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1:9"


@dataclass
class Rig:
    """Claims at once from the endpoint of a bench, and notes what it runs and what it leaves."""

    site: Bench
    requests: list[UUID]
    routes: KnownRoutes = field(default_factory=KnownRoutes)
    reach: Reach = field(default_factory=Reach)
    ran: list[tuple[UUID, str, int]] = field(default_factory=list)
    left: list[UUID] = field(default_factory=list)

    def __post_init__(self) -> None:
        runs = Runs()
        runs.crew = self.crew = Crew(runs, Appetite(), lambda: None)
        self.at_once = AtOnce(self.site.queue, self.crew, self.routes, self.reach, self._run, self.left.append)

    def _run(self, leased: Leased, place: Place, room: int) -> None:
        self.ran.append((leased.id, place.address, room))

    async def learn(self) -> None:
        """Know the endpoint's routing document, as after a claim."""
        route = self.site.route(HERE)
        await self.site.publish(route)
        claimed = leased(self.site.endpoint_id)._replace(instance_id=instance_at(HERE), revision=1, document=encode(route))
        self.routes.place(claimed)

    def claim(self, request_id: UUID | None = None) -> bool:
        """Claim a request of the endpoint, the first that is queued unless another is named."""
        return self.at_once.claim(self.site.endpoint_id, request_id or self.requests[0])


def with_rig(test: Callable[[Rig], Awaitable[None]], queued: int = 1) -> list[AsyncInvocation]:
    """Test with so many requests in the queue; as they are afterwards."""
    endpoint_id = new_uuid()
    rows = [queue_up(endpoint_id=endpoint_id) for _ in range(queued)]

    async def work() -> None:
        async with bench(endpoint_id) as site:
            await test(Rig(site, [row.id for row in rows]))

    do(work())
    for row in rows:
        row.refresh_from_db()
    return rows


def test_a_request_alone_is_claimed_and_run_where_it_may_be() -> None:
    async def test(rig: Rig) -> None:
        await rig.learn()
        room = rig.crew.room(rig.site.endpoint_id)
        assert rig.claim()
        await rig.at_once.end()
        assert (rig.ran, rig.left) == ([(rig.requests[0], HERE, room)], [])

    [row] = with_rig(test)
    assert (row.state, row.instance_id) == ("running", instance_at(HERE))


def test_where_others_wait_as_well_it_is_left_to_the_rounds() -> None:
    async def test(rig: Rig) -> None:
        await rig.learn()
        assert rig.claim()
        await rig.at_once.end()
        assert (rig.ran, rig.left) == ([], [rig.site.endpoint_id])

    assert [row.state for row in with_rig(test, queued=2)] == ["queued", "queued"]


def test_a_claim_that_fails_is_left_to_the_rounds_and_what_it_may_have_leased_is_remembered() -> None:
    async def test(rig: Rig) -> None:
        await rig.learn()
        async with rig.site.pool.connection() as connection, connection.transaction():
            await connection.execute("LOCK TABLE invocations_asyncinvocation")
            assert rig.claim()
            await rig.at_once.end()
        assert (rig.ran, rig.left) == ([], [rig.site.endpoint_id])
        assert len(rig.site.queue.unheard) == 1

    assert [row.state for row in with_rig(test)] == ["queued"]


def test_of_one_endpoint_one_claim_is_under_way_and_of_all_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await rig.learn()
        assert rig.claim()
        assert not rig.claim(new_uuid())
        await rig.at_once.end()
        assert len(rig.ran) == 1
        monkeypatch.setattr(at_once, "AT_ONCE_LIMIT", 0)
        assert not rig.claim(new_uuid())

    with_rig(test)


def test_an_endpoint_whose_instances_are_not_known_is_left_to_the_rounds() -> None:
    async def test(rig: Rig) -> None:
        assert not rig.claim()

    with_rig(test)


def test_an_endpoint_whose_only_instance_is_shunned_is_left_to_the_rounds() -> None:
    async def test(rig: Rig) -> None:
        await rig.learn()
        rig.reach.failed(instance_at(HERE), clock.monotonic())
        assert not rig.claim()

    with_rig(test)


def test_an_endpoint_of_which_a_request_runs_here_is_left_to_the_rounds() -> None:
    async def test(rig: Rig) -> None:
        await rig.learn()
        rig.crew.take(leased(rig.site.endpoint_id), HERE, Call(clock.monotonic()))
        assert not rig.claim()

    with_rig(test)
