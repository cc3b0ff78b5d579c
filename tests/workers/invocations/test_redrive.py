"""Redrives carried through: the failure object goes first; and what becomes of cancelled requests that were running."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from controlplane.core import clock
from controlplane.invocations import services
from controlplane.invocations.models import AsyncInvocation, AsyncNotification, AsyncPayload, InvocationState
from controlplane.observability.models import Event
from tests.controlplane.gateway.site import Container
from tests.controlplane.invocations.letters import endpoint
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import Bench, bench, do, object_at, queue_up, run_once, s3
from workers.invocations.leased import Leased
from workers.invocations.redrive import AGAIN_SECONDS, CLAIM_SECONDS, Redriver
from workers.invocations.store import Store, StoreAway

pytestmark = pytest.mark.django_db(transaction=True)


class Away:
    """A store that does not answer, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def remove(self, location: str) -> None:
        self.asked.append(location)
        raise StoreAway(f"{location} cannot be reached")


class Remembering:
    """The real store, and in which state each request was when its object had been removed."""

    def __init__(self, store: Store, bench: Bench) -> None:
        self._store, self._bench = store, bench
        self.states: list[str] = []

    async def remove(self, location: str) -> None:
        await self._store.remove(location)
        async with self._bench.pool.connection() as connection:
            query = "SELECT state FROM invocations_asyncinvocation WHERE failure_location = %s"
            self.states += [row[0] for row in await (await connection.execute(query, [location])).fetchall()]


def failed(model: Container, **members: Any) -> AsyncInvocation:
    """A request that a model refused, of an endpoint that exists."""
    at = endpoint(clock.now())
    row = queue_up(b"x", endpoint_id=at.id, endpoint_name=at.name, custom_attributes="mode=http:400", **members)
    row = run_once(row, model.address)
    assert (row.state, row.failure_kind) == ("failed", "model_client_error")
    assert object_at(row.failure_location)
    # What was wrong with the request is put right, so that the next run succeeds.
    AsyncInvocation.objects.filter(pk=row.pk).update(custom_attributes="")
    return row


def redrive(row: AsyncInvocation) -> None:
    """As an operator does."""
    services.redrive(row.account_id, row.id, actor="KEY", now=clock.now())


def step(row: AsyncInvocation, store: Callable[[Bench], Any] = lambda site: site.store) -> int:
    """One step of the redriver."""

    async def work() -> int:
        async with bench(row.endpoint_id) as site:
            return await Redriver(site.pool, store(site)).step()

    return do(work())


def test_a_redriven_request_runs_again_and_answers_at_its_output_location(model: Container) -> None:
    row = failed(model)
    redrive(row)
    seen: list[Remembering] = []

    def remembering(site: Bench) -> Remembering:
        seen.append(Remembering(site.store, site))
        return seen[-1]

    assert step(row, remembering) == 1
    assert seen[0].states == [InvocationState.REDRIVING], "the object goes before the request is queued"
    assert object_at(row.failure_location) is None
    row.refresh_from_db()
    assert (row.state, row.lease_token) == ("queued", None)
    row = run_once(row, model.address)
    assert (row.state, row.attempts, row.redrives) == ("completed", 1, 1)
    assert object_at(row.output_location) == b"x"
    assert object_at(row.failure_location) is None
    words = [each[1] for each in row.timeline]
    assert words[words.index("failed") :] == ["failed", "redriven", "retried", "claimed", "sent", "answered", "stored"]


def test_a_redriven_request_that_fails_again_tells_its_new_failure(model: Container) -> None:
    row = failed(model)
    redrive(row)
    step(row)
    AsyncInvocation.objects.filter(pk=row.pk).update(custom_attributes="mode=http:418")
    row = run_once(row, model.address)
    assert row.state == "failed"
    assert b"418" in (object_at(row.failure_location) or b"")
    assert AsyncPayload.objects.filter(pk=row.pk).exists(), "it can be redriven once more"


def test_a_failure_object_that_is_gone_already_is_no_obstacle(model: Container) -> None:
    row = failed(model)
    bucket, _, key = row.failure_location.removeprefix("s3://").partition("/")
    s3().delete_object(Bucket=bucket, Key=key)
    redrive(row)
    step(row)
    row.refresh_from_db()
    assert row.state == "queued"


def test_nothing_is_queued_while_the_store_is_away(model: Container, fake_clock: FakeClock) -> None:
    row = failed(model)
    redrive(row)
    away = Away()
    assert step(row, lambda site: away) == 1
    assert step(row, lambda site: away) == 0, "the store is left alone for a while"
    row.refresh_from_db()
    assert (row.state, row.due_at) == ("redriving", fake_clock.now() + timedelta(seconds=AGAIN_SECONDS))
    fake_clock.step(AGAIN_SECONDS)
    assert step(row) == 1
    row.refresh_from_db()
    assert (row.state, away.asked) == ("queued", [row.failure_location])


def test_with_its_time_to_live_over_it_expires_and_says_so_where_the_old_failure_was(
    model: Container, fake_clock: FakeClock
) -> None:
    row = failed(model)
    old = object_at(row.failure_location)
    redrive(row)
    fake_clock.step(6 * 3600 + 1)
    away = Away()
    step(row, lambda site: away)
    assert away.asked == []
    row = told(row, lambda site: site.queue.claim_expired(10))
    assert (row.state, row.failure_kind) == ("expired", "expired")
    assert object_at(row.failure_location) not in (old, None)


def test_a_worker_that_dies_leaves_the_redrive_to_the_next(model: Container, fake_clock: FakeClock) -> None:
    row = failed(model)
    redrive(row)

    class Dying:
        async def remove(self, location: str) -> None:
            raise KeyError("the process ends here")

    with pytest.raises(KeyError):
        step(row, lambda site: Dying())
    assert step(row) == 0, "its claim holds"
    fake_clock.step(CLAIM_SECONDS)
    assert step(row) == 1
    row.refresh_from_db()
    assert row.state == "queued"


def test_a_redrive_that_was_taken_over_is_not_queued_by_the_first(model: Container, fake_clock: FakeClock) -> None:
    row = failed(model)
    redrive(row)

    @dataclass(frozen=True)
    class Slow:
        site: Bench

        async def remove(self, location: str) -> None:
            async with self.site.pool.connection() as connection:
                await connection.execute("UPDATE invocations_asyncinvocation SET lease_token = id")

    assert step(row, Slow) == 1
    row.refresh_from_db()
    assert (row.state, row.lease_token) == ("redriving", row.pk)


def told(row: AsyncInvocation, claim: Callable[[Bench], Awaitable[list[Leased]]]) -> AsyncInvocation:
    """Tell the failure of what is claimed so; returns the request as it is then."""

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            for leased in await claim(site):
                await site.run(leased, "127.0.0.1:1")  # no model is asked

    do(work())
    row.refresh_from_db()
    return row


def cancelled(row: AsyncInvocation) -> AsyncInvocation:
    """Cancelled by the account, and told by a worker."""
    services.cancel(row.account_id, row.id, actor="KEY", now=clock.now())
    return told(row, lambda site: site.queue.claim_decided(10))


def test_a_cancelled_request_is_told_as_cancelled_and_never_run(model: Container) -> None:
    row = cancelled(queue_up(b"x", delivery={"error_topic": "arn:aws:sns:us-east-1:123456789012:errors"}))
    assert (row.state, row.failure_kind, row.outcome_text) == (
        "cancelled",
        "cancelled",
        "The request was cancelled by KEY.",
    )
    assert [detail for _, step, _, detail in row.timeline if step == "cancelled"] == ["by KEY", ""]
    assert object_at(row.failure_location) == b"The request was cancelled by KEY."
    assert object_at(row.output_location) is None
    assert not AsyncPayload.objects.exists()
    [message] = AsyncNotification.objects.all()
    assert "ClientError: The request was cancelled by KEY." in message.message
    with pytest.raises(services.ValidationException):
        redrive(row)


def test_a_cancelled_redrive_ends_as_cancelled_after_its_old_failure_object_went(model: Container) -> None:
    row = failed(model)
    redrive(row)
    services.cancel(row.account_id, row.id, actor="KEY", now=clock.now())
    assert told(row, lambda site: site.queue.claim_decided(10)).state == "redriving"
    step(row)
    row = told(row, lambda site: site.queue.claim_decided(10))
    assert row.state == "cancelled"
    assert object_at(row.failure_location) == b"The request was cancelled by KEY."


def test_an_answer_that_comes_after_the_cancellation_is_dropped_with_an_event(model: Container) -> None:
    row = queue_up(b"late")

    async def claim() -> list[Leased]:
        async with bench(row.endpoint_id) as site:
            return await site.claim(model.address)

    async def answer(leased: Leased) -> None:
        async with bench(row.endpoint_id) as site:
            await site.run(leased, model.address)

    [leased] = do(claim())
    payload = AsyncPayload.objects.get(pk=row.pk)
    services.cancel(row.account_id, row.id, actor="KEY", now=clock.now())
    payload.save(force_insert=True)  # the worker had read it by then
    do(answer(leased))
    row = told(row, lambda site: site.queue.claim_decided(10))
    assert (row.state, object_at(row.output_location)) == ("cancelled", None)
    assert object_at(row.failure_location) == b"The request was cancelled by KEY."
    assert [event.reason for event in Event.objects.order_by("id")] == ["AsyncRequestCancelled", "LateAnswerDropped"]
