"""The claim of a request that waits alone, where an instance runs nothing: it takes what a full claim would, or nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from controlplane.core import clock
from controlplane.invocations.models import AsyncInvocation
from controlplane.routing.table import encode
from tests.workers.invocations.site import VARIANT, Bench, bench, do, instance_at, queue_up, route_of
from tests.workers.invocations.test_crew import leased
from workers.invocations.known_routes import KnownRoutes, Opening, Place
from workers.invocations.leased import Leased

pytestmark = pytest.mark.django_db(transaction=True)

FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"
ENDPOINT = UUID(int=7)
ROUTE = route_of(ENDPOINT, FIRST, SECOND)
AT = Opening(instance_at(FIRST), Place(ROUTE, ROUTE.variants[0], FIRST))
REVISION = "SELECT revision FROM routing_routingsnapshot WHERE endpoint_id = %s"

Before = Callable[[Bench, AsyncInvocation], Awaitable[object]]


async def nothing(site: Bench, row: AsyncInvocation) -> None:
    """Leave everything as it is."""


async def another_waits(site: Bench, row: AsyncInvocation) -> None:
    await site.pool_do(
        "INSERT INTO invocations_asyncinvocation SELECT (copy).* FROM (SELECT jsonb_populate_record(q, jsonb_build_object("
        f"'id', '{uuid4()}')) AS copy FROM invocations_asyncinvocation q WHERE id = '{row.id}') AS copies"
    )


async def another_runs_there(site: Bench, row: AsyncInvocation) -> None:
    await another_waits(site, row)
    await site.pool_do(
        f"UPDATE invocations_asyncinvocation SET state = 'running', instance_id = '{AT.instance_id}' WHERE id <> '{row.id}'"
    )


async def another_runs_elsewhere(site: Bench, row: AsyncInvocation) -> None:
    await another_runs_there(site, row)
    await site.pool_do(
        f"UPDATE invocations_asyncinvocation SET instance_id = '{instance_at(SECOND)}' WHERE id <> '{row.id}'"
    )


async def the_route_changes(site: Bench, row: AsyncInvocation) -> None:
    await site.publish(site.route(FIRST, SECOND))


async def it_is_taken(site: Bench, row: AsyncInvocation) -> None:
    await site.pool_do("UPDATE invocations_asyncinvocation SET state = 'running'")


async def it_is_cancelled(site: Bench, row: AsyncInvocation) -> None:
    await site.pool_do("UPDATE invocations_asyncinvocation SET failure_kind = 'cancelled'")


async def it_is_due_later(site: Bench, row: AsyncInvocation) -> None:
    await site.pool_do("UPDATE invocations_asyncinvocation SET due_at = now() + interval '1 hour'")


async def its_time_is_over(site: Bench, row: AsyncInvocation) -> None:
    await site.pool_do("UPDATE invocations_asyncinvocation SET expires_at = now() - interval '1 second'")


def claimed_alone(before: Before, body: bytes = b"payload") -> tuple[AsyncInvocation, list[Leased], list[Leased]]:
    """The request, what was claimed of it alone after `before`, and what a full claim still finds."""
    row = queue_up(body)

    async def work() -> tuple[list[Leased], list[Leased]]:
        async with bench(row.endpoint_id) as site:
            await site.publish(site.route(FIRST))
            async with site.pool.connection() as connection:
                [[revision]] = await (await connection.execute(REVISION, [row.endpoint_id])).fetchall()
            await before(site, row)
            alone = await site.queue.ask_alone(row.endpoint_id, row.id, AT, revision)
            return [Leased._make(each) for each in alone], await site.queue.claim(row.endpoint_id, 10, revision)

    return (row, *do(work()))


def test_it_is_leased_as_by_a_full_claim() -> None:
    row, [alone], [] = claimed_alone(nothing)
    other, [], [full] = claimed_alone(the_route_changes)
    own = {
        "id": row.id,
        "endpoint_id": row.endpoint_id,
        "inference_id": row.inference_id,
        "output_location": row.output_location,
        "failure_location": row.failure_location,
        "accepted_at": row.accepted_at,
        "queued_at": row.accepted_at,
        "expires_at": row.expires_at,
        "lease_token": alone.lease_token,
    }
    same = full._replace(**own, slots=alone.slots, revision=alone.revision, document=None)
    assert alone == same
    assert (alone.body, alone.attempts, alone.instance_id) == (b"payload", 1, AT.instance_id)
    kept, taken = AsyncInvocation.objects.get(id=row.id), AsyncInvocation.objects.get(id=other.id)
    assert (kept.state, kept.lease_token, kept.variant_name) == ("running", alone.lease_token, VARIANT)
    assert kept.lease_expires_at is not None
    assert timedelta(0) < kept.lease_expires_at - clock.now() <= timedelta(seconds=15)
    assert [step[1:] for step in kept.timeline] == [step[1:] for step in taken.timeline]


def test_what_runs_at_another_instance_is_no_obstacle() -> None:
    row, [alone], [] = claimed_alone(another_runs_elsewhere)
    assert alone.id == row.id


@pytest.mark.parametrize(
    ("before", "left"),
    [(another_waits, 2), (another_runs_there, 1), (the_route_changes, 1), (it_is_taken, 0), (it_is_due_later, 0)],
    ids=lambda each: each.__name__ if callable(each) else str(each),
)
def test_where_anything_is_to_be_decided_it_is_left_to_the_full_claim(before: Before, left: int) -> None:
    _, alone, full = claimed_alone(before)
    assert alone == []
    assert len(full) == left


@pytest.mark.parametrize("before", [it_is_cancelled, its_time_is_over], ids=lambda each: each.__name__)
def test_what_is_not_to_run_is_not_leased(before: Before) -> None:
    _, alone, full = claimed_alone(before)
    assert alone == full == []


def known(**changes: Any) -> KnownRoutes:
    """The documents of a dispatcher that has claimed once by this route."""
    routes, route = KnownRoutes(), replace(ROUTE, **changes)
    routes.place(leased(ENDPOINT)._replace(instance_id=instance_at(FIRST), revision=3, document=encode(route)))
    return routes


def proposed(routes: KnownRoutes, *shunned: str) -> str | None:
    """The address of the instance that is proposed, whose id and place belong together."""
    opening = routes.first_open(ENDPOINT, [instance_at(each) for each in shunned])
    assert opening is None or opening.instance_id == instance_at(opening.place.address)
    return opening and opening.place.address


def test_the_first_instance_that_takes_requests_is_proposed() -> None:
    assert proposed(known()) == FIRST
    assert proposed(known(), FIRST) == SECOND
    assert proposed(known(), FIRST, SECOND) is None
    variant = ROUTE.variants[0]
    draining = replace(variant, targets=(replace(variant.targets[0], is_draining=True), variant.targets[1]))
    assert proposed(known(variants=(draining,))) == SECOND


def test_nothing_is_proposed_of_what_is_not_known_or_shared_by_two_revisions() -> None:
    assert proposed(KnownRoutes()) is None
    variant = route_of(ENDPOINT, FIRST).variants[0]
    assert proposed(known(variants=(replace(variant, share=0.5), replace(variant, share=0.5)))) is None
