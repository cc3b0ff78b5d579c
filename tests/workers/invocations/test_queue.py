"""The queue's statements: what they cost with a long queue, what they keep, whom they let write."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection

from controlplane.core import clock
from controlplane.invocations.models import AsyncInvocation, AsyncPayload
from controlplane.invocations.steps import KEPT_FIRST, LIMIT, Step
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import bench, do, queue_up
from workers.invocations import statements
from workers.invocations.plan import Fail, Kind

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1:9"

MANY = """
INSERT INTO invocations_asyncinvocation (
  id, account_id, endpoint_id, endpoint_name, variant_name, inference_id, content_type, accept, custom_attributes,
  input_location, state, accepted_at, expires_at, timeout_seconds, attempts, due_at, output_location, failure_location,
  delivery, is_storing, outcome_text, failure_kind, timeline, redrives)
SELECT gen_random_uuid(), '123456789012', %s, 'e', '', 'i', '', '', '', '', 'queued', now(), now() + interval '6 hours',
  900, 0, now(), 's3://b/o', '', '{}', false, '', '', '[]', 0
FROM generate_series(1, %s)
"""


def plan_of(statement: str, **params: object) -> str:
    now = clock.now()
    common = {"now": now, "at": now.isoformat(), "token": uuid4(), "lease_expires_at": now, "count": 32, "limit": 3}
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}", {**common, "text": "", "kind": "expired", **params})
        return "\n".join(row[0] for row in cursor.fetchall())


def test_no_statement_of_a_round_reads_the_queue_from_end_to_end() -> None:
    endpoint_id = uuid4()
    with connection.cursor() as cursor:
        cursor.execute(MANY, [endpoint_id, 20_000])
        cursor.execute("ANALYZE invocations_asyncinvocation")
    claim = plan_of(statements.CLAIM.text, endpoint_id=endpoint_id, known=0, shunned="{}")
    assert "invocation_queue" in claim
    assert "invocation_expiry" in plan_of(statements.CLAIM_EXPIRED)
    assert "invocation_decided" in plan_of(statements.CLAIM_DECIDED)
    assert "invocation_leases" in plan_of(statements.RECLAIM)
    for statement in (statements.CLAIM_EXPIRED, statements.CLAIM_DECIDED, statements.RECLAIM, statements.WAITING):
        assert "Seq Scan on invocations_asyncinvocation" not in plan_of(statement)
    assert "Seq Scan on invocations_asyncinvocation" not in claim


def test_a_timeline_that_has_grown_long_keeps_its_beginning_and_its_end(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            for number in range(LIMIT):
                fake_clock.step(60)
                (leased,) = await site.claim(HERE)
                step = leased.step(Step.RETRIED, f"retry {number}")
                await site.ledger.retry(leased, fake_clock.now(), [step], is_attempt=False)

    do(work())
    row.refresh_from_db()
    assert len(row.timeline) == LIMIT
    details = [detail for _, step, _, detail in row.timeline if step == "retried"]
    assert details[: KEPT_FIRST // 2] == [f"retry {number}" for number in range(KEPT_FIRST // 2)]
    assert details[-1] == f"retry {LIMIT - 1}"
    assert row.timeline == sorted(row.timeline, key=lambda step: step[0])


def test_nobody_without_the_lease_changes_anything(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> list[bool]:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(HERE)
            await site.ledger.retry(leased, fake_clock.now(), [])
            step = leased.step(Step.SENT)
            return [
                await site.ledger.start_storing(leased, step, step),
                await site.ledger.decide_failure(leased, Fail("no", Kind.TIMEOUT)),
                await site.ledger.retry(leased, fake_clock.now(), []),
                await site.ledger.complete(leased, step),
                bool(await site.ledger.renew([leased])),
            ]

    assert do(work()) == [False] * 5
    row.refresh_from_db()
    assert (row.state, row.failure_kind, row.is_storing) == ("queued", "", False)
    assert AsyncPayload.objects.filter(pk=row.pk).exists()


def test_a_request_that_is_cancelled_while_it_runs_is_let_go_of(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> set[object]:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(HERE)
            await site.pool_do("UPDATE invocations_asyncinvocation SET state = 'cancelled', lease_token = NULL")
            return set(await site.ledger.renew([leased]))

    assert do(work()) == set()


def test_what_is_put_back_is_not_taken_before_its_time(fake_clock: FakeClock) -> None:
    row = queue_up()

    async def work() -> list[int]:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(HERE)
            await site.ledger.retry(leased, fake_clock.now() + timedelta(seconds=5), [])
            found = [len(await site.claim(HERE))]
            fake_clock.step(5)
            return [*found, len(await site.claim(HERE))]

    assert do(work()) == [0, 1]
    assert AsyncInvocation.objects.get(pk=row.pk).attempts == 2
