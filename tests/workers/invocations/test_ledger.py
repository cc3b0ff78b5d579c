"""What became of leased requests, written for many at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import uuid4

import pytest

from controlplane.invocations.messages import Note
from controlplane.invocations.models import AsyncInvocation, AsyncNotification, AsyncPayload
from controlplane.invocations.steps import Step
from tests.workers.invocations.site import Bench, bench, do, queue_up
from workers.invocations.leased import Leased
from workers.invocations.plan import Fail, Kind

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1:9"


def storing(site: Bench, leased: Leased) -> Coroutine[Any, Any, bool]:
    return site.ledger.start_storing(leased, leased.step(Step.SENT), leased.step(Step.ANSWERED, "200"))


def test_news_of_many_requests_is_written_together_and_each_row_gets_its_own() -> None:
    endpoint_id = uuid4()
    rows = [queue_up(b"%d" % number, endpoint_id=endpoint_id) for number in range(6)]

    async def work() -> list[bool]:
        async with bench(endpoint_id) as site:
            claimed = await site.claim(HERE, max_concurrent=10)
            first, rest = claimed[:3], claimed[3:]
            assert all(await asyncio.gather(*(storing(site, each) for each in first)))
            notes = [Note("arn:aws:sns:us-east-1:123456789012:told", "a message")]
            completions = [site.ledger.complete(each, each.step(Step.STORED, str(each.id)), notes) for each in first]
            return await asyncio.gather(*completions, *(storing(site, each) for each in rest))

    assert all(do(work()))
    found = {row.pk: AsyncInvocation.objects.get(pk=row.pk) for row in rows}
    completed = [row for row in found.values() if row.state == "completed"]
    running = [row for row in found.values() if row.state == "running"]
    assert (len(completed), len(running)) == (3, 3)
    for row in completed:
        assert [step for _, step, _, _ in row.timeline] == ["claimed", "sent", "answered", "stored"]
        assert row.timeline[-1][3] == str(row.pk)
        assert (row.lease_token, row.is_storing) == (None, False)
    for row in running:
        assert [step for _, step, _, _ in row.timeline] == ["claimed", "sent", "answered"]
        assert (row.is_storing, row.instance_id) == (True, None)
    assert set(AsyncPayload.objects.values_list("pk", flat=True)) == {row.pk for row in running}
    assert set(AsyncNotification.objects.values_list("invocation_id", flat=True)) == {row.pk for row in completed}


def test_a_lease_that_was_lost_writes_nothing_even_beside_the_one_that_holds() -> None:
    """The same request leased twice by one worker: the news of the first lease and of the second meet in one batch."""
    row = queue_up()

    async def work() -> list[bool]:
        async with bench(row.endpoint_id) as site:
            (lost,) = await site.claim(HERE)
            await site.pool_do("UPDATE invocations_asyncinvocation SET state = 'queued', lease_token = NULL")
            (held,) = await site.claim(HERE)
            blocker = asyncio.create_task(site.ledger.renew([held]))  # both gather behind it
            await asyncio.sleep(0)
            results = await asyncio.gather(storing(site, lost), storing(site, held))
            await blocker
            return list(results)

    assert do(work()) == [False, True]
    row.refresh_from_db()
    assert [step for _, step, _, _ in row.timeline] == ["claimed", "claimed", "sent", "answered"]


def test_a_text_that_the_database_cannot_keep_fails_alone() -> None:
    endpoint_id = uuid4()
    for _ in range(3):
        queue_up(endpoint_id=endpoint_id)

    async def work() -> list[object]:
        async with bench(endpoint_id) as site:
            first, bad, last = await site.claim(HERE)
            notes = {bad.id: [Note("arn:aws:sns:us-east-1:123456789012:told", "a\x00b")]}
            endings = [
                site.ledger.complete(each, each.step(Step.STORED), notes.get(each.id, ())) for each in (first, bad, last)
            ]
            return await asyncio.gather(*endings, return_exceptions=True)

    results = do(work())
    assert [isinstance(each, Exception) for each in results] == [False, True, False]
    assert results[0] is results[2] is True
    assert sorted(AsyncInvocation.objects.values_list("state", flat=True)) == ["completed", "completed", "running"]


def test_an_outcome_that_is_no_success_keeps_the_payload() -> None:
    row = queue_up()

    async def work() -> bool:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(HERE)
            failure = Fail("It took too long.", Kind.TIMEOUT)
            return await site.ledger.end(leased, "failed", [leased.step(Step.FAILED, failure.text)], (), failure)

    assert do(work())
    row.refresh_from_db()
    assert (row.state, row.outcome_text, row.failure_kind) == ("failed", "It took too long.", "timeout")
    assert AsyncPayload.objects.filter(pk=row.pk).exists()
