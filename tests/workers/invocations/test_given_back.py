"""Requests that a worker has leased and does not work on: back in the queue before their leases run out."""

import asyncio
from uuid import UUID

import pytest

from controlplane.core.ids import new_uuid
from controlplane.invocations.models import AsyncInvocation
from tests.controlplane.routing.peers import until
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import Bench, bench, do, queue_up
from workers.invocations.given_back import give_back
from workers.invocations.plan import ATTEMPTS_LIMIT, GIVEN_BACK_TEXT, UNHEARD_TEXT
from workers.invocations.queue import LEASE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1:9"


async def claim_unheard(site: Bench) -> None:
    """A claim that is done, and whose answer nobody hears."""
    await site.publish(site.route(HERE))
    claiming = asyncio.create_task(site.queue.claim(site.endpoint_id, 10))
    await asyncio.sleep(0)  # by now it is asked
    assert site.queue.unheard == []
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    assert len(site.queue.unheard) == 1
    await until(lambda: AsyncInvocation.objects.filter(state="running").count() > 0)


def ended(row: AsyncInvocation) -> list[object]:
    row.refresh_from_db()
    return [row.state, row.attempts, row.lease_token, row.instance_id, row.failure_kind, row.timeline[-1][1:]]


def test_an_abandoned_request_is_queued_again_and_has_had_its_attempt(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> int:
        async with bench(row.endpoint_id) as site:
            abandoned = await site.claim(HERE)
            await give_back(site.pool, abandoned, [])
            return len(await site.claim(HERE, 0))

    do(work())
    assert ended(row) == ["queued", 1, None, None, "", ["retried", 1, GIVEN_BACK_TEXT]]
    assert row.due_at == fake_clock.now()


def test_after_its_last_attempt_an_abandoned_request_has_failed(fake_clock: FakeClock) -> None:
    row = queue_up(attempts=ATTEMPTS_LIMIT - 1)

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            await give_back(site.pool, await site.claim(HERE), [])
            assert await site.claim(HERE) == []
            assert [each.failure_kind for each in await site.queue.claim_decided(10)] == ["abandoned"]

    do(work())
    row.refresh_from_db()
    assert row.outcome_text == GIVEN_BACK_TEXT


def test_what_a_claim_has_taken_whose_answer_was_lost_is_queued_again_as_if_it_had_not_been() -> None:
    endpoint_id = new_uuid()
    rows = [queue_up(endpoint_id=endpoint_id) for _ in range(3)]

    async def work() -> None:
        async with bench(endpoint_id) as site:
            await claim_unheard(site)
            await give_back(site.pool, [], site.queue.unheard)

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        do(work())
    for row in rows:
        assert ended(row) == ["queued", 0, None, None, "", ["retried", 1, UNHEARD_TEXT]]


def test_claims_whose_answers_came_leave_no_doubt_and_a_doubt_ends_with_the_lease(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> list[list[UUID]]:
        async with bench(row.endpoint_id) as site:
            await site.claim(HERE)
            await site.queue.claim_expired(10)
            seen = [site.queue.unheard]
            site.queue._unheard[row.id] = fake_clock.monotonic()
            seen.append(site.queue.unheard)
            fake_clock.step(LEASE_SECONDS)
            return [*seen, site.queue.unheard]

    assert do(work()) == [[], [row.id], []]


def test_what_somebody_else_holds_by_now_is_left_alone(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> UUID:
        async with bench(row.endpoint_id) as site:
            lost = await site.claim(HERE)
            fake_clock.step(LEASE_SECONDS + 1)
            await site.queue.reclaim(10)
            (held,) = await site.claim(HERE)
            await give_back(site.pool, lost, [lost[0].lease_token])
            return held.lease_token

    token = do(work())
    row.refresh_from_db()
    assert (row.state, row.lease_token) == ("running", token)
