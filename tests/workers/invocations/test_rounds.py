"""What a dispatcher does when it is told something, between its rounds."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from controlplane.core.ids import new_uuid
from controlplane.routing.table import encode
from tests.workers.invocations.site import Bench, bench, do, instance_at, queue_up
from tests.workers.invocations.test_crew import Runs, leased
from workers.invocations.appetite import Appetite
from workers.invocations.crew import Crew
from workers.invocations.known_routes import KnownRoutes
from workers.invocations.reach import Reach
from workers.invocations.rounds import Rounds

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1:9"


async def rounds_of(site: Bench) -> Rounds:
    """The rounds of a dispatcher that knows where the endpoint of the bench serves; none is made."""
    runs, appetite, routes = Runs(), Appetite(), KnownRoutes()
    runs.crew = Crew(runs, appetite, lambda: None)
    route = site.route(HERE)
    await site.publish(route)
    routes.place(leased(site.endpoint_id)._replace(instance_id=instance_at(HERE), revision=1, document=encode(route)))
    return Rounds(site.pool, site.queue, site.ledger, runs.crew, routes, appetite, Reach(), asyncio.Event())


def with_rounds(test: Callable[[Rounds, Bench, UUID], Awaitable[None]]) -> None:
    """Test with one request that is queued."""
    row = queue_up(endpoint_id=new_uuid())

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            await test(await rounds_of(site), site, row.id)

    do(work())


def test_a_request_that_a_notice_names_runs_without_a_round() -> None:
    async def test(rounds: Rounds, site: Bench, request_id: UUID) -> None:
        rounds.rung(f"{site.endpoint_id} {request_id}")
        await rounds.end()
        assert [each.id for each in rounds.crew.leases] == [request_id]
        assert not rounds.wake.is_set()

    with_rounds(test)


def test_once_stopped_a_dispatcher_claims_nothing_that_it_is_told_of() -> None:
    async def test(rounds: Rounds, site: Bench, request_id: UUID) -> None:
        rounds.stop()
        rounds.rung(f"{site.endpoint_id} {request_id}")
        await rounds.end()
        assert rounds.crew.leases == []

    with_rounds(test)


@pytest.mark.parametrize("alone", [True, False], ids=["a request that is not there", "no request"])
def test_what_is_not_claimed_at_once_is_for_the_next_round(alone: bool) -> None:
    async def test(rounds: Rounds, site: Bench, request_id: UUID) -> None:
        rounds.rung(f"{site.endpoint_id} {new_uuid()}" if alone else str(site.endpoint_id))
        await rounds.end()
        assert rounds.crew.leases == []
        assert rounds.wake.is_set()
        assert rounds.appetite.take() == [site.endpoint_id]

    with_rounds(test)
