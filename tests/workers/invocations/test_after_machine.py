"""Seeded random lives of a request: run, failed, crashed, redriven, cancelled, expired, while the store comes and goes.

Whatever happens, in whatever order, whoever waits at the two locations never sees an outcome that is not one.
"""

import io
import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from controlplane.core import clock
from controlplane.core.errors import ValidationException
from controlplane.invocations import services
from controlplane.invocations.models import DEAD, ENDED, AsyncInvocation, AsyncPayload
from tests.controlplane.invocations.letters import endpoint
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import bench, do, queue_up, s3
from workers.invocations.outcomes import Answer
from workers.invocations.plan import Fail, Kind
from workers.invocations.queue import LEASE_SECONDS
from workers.invocations.redrive import Redriver
from workers.invocations.store import StoreAway

pytestmark = pytest.mark.django_db(transaction=True)

ADDRESS = "127.0.0.1:1"


class Closed:
    """A store that is away."""

    async def remove(self, location: str) -> None:
        raise StoreAway(location)


class Life:
    """One request, and everything that may happen to it."""

    def __init__(self, fake_clock: FakeClock) -> None:
        self.store = s3()
        self.clock = fake_clock
        at = endpoint(clock.now())
        self.row = queue_up(b"x", endpoint_id=at.id, endpoint_name=at.name)
        self.redrives = 0

    def deeds(self) -> list[Callable[[], None]]:
        """What may happen now; where much may, what is of interest comes more often."""
        state = AsyncInvocation.objects.get(pk=self.row.pk).state
        always = [self.an_operator_redrives, self.an_operator_cancels, self.a_moment_passes, self.hours_pass]
        queued = [
            self.a_worker_answers,
            *[self.a_worker_fails] * 4,
            self.a_worker_dies,
            self.a_cancellation_meets_a_running_call,
            *[self.decided_failures_are_told] * 2,
        ]
        redriving = [*[self.the_redriver_works] * 2, self.the_redriver_works_without_a_store]
        return always + {"queued": queued, "redriving": redriving}.get(state, [])

    def object_at(self, location: str) -> bool:
        """Whether there is an object; one client looks for all of them, since making one takes longer than looking."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return bool(self.store.list_objects_v2(Bucket=bucket, Prefix=key).get("KeyCount"))

    def a_worker_answers(self) -> None:
        """Claimed, answered and stored; nothing happens when nothing is due."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                for leased in await site.claim(ADDRESS):
                    now = clock.now()
                    await site.runner.outcomes.complete(leased, Answer(io.BytesIO(b"y"), "", 200, now, now))

        do(work())

    def a_worker_fails(self) -> None:
        """Claimed, and refused by the model."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                for leased in await site.claim(ADDRESS):
                    await site.runner.outcomes.fail(leased, Fail("No.", Kind.MODEL_CLIENT_ERROR))

        do(work())

    def a_worker_dies(self) -> None:
        """Claimed, and nothing more is heard of it until its lease has run out."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                await site.claim(ADDRESS)
                self.clock.step(LEASE_SECONDS + 1)
                await site.queue.reclaim(10)

        do(work())

    def a_cancellation_meets_a_running_call(self) -> None:
        """Claimed; cancelled while the model works; answered all the same."""

        async def claim() -> list[object]:
            async with bench(self.row.endpoint_id) as site:
                return list(await site.claim(ADDRESS))

        async def answer(leased: object) -> None:
            async with bench(self.row.endpoint_id) as site:
                now = clock.now()
                await site.runner.outcomes.complete(leased, Answer(io.BytesIO(b"late"), "", 200, now, now))  # type: ignore[arg-type]

        for leased in do(claim()):
            self.an_operator_cancels()
            do(answer(leased))
            assert not self.object_at(self.row.output_location)

    def decided_failures_are_told(self) -> None:
        """As a worker's chores do."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                for claim in (site.queue.claim_expired, site.queue.claim_decided):
                    for leased in await claim(10):
                        await site.run(leased, ADDRESS)

        do(work())

    def an_operator_redrives(self) -> None:
        """Refused unless it is a dead letter."""
        was = AsyncInvocation.objects.get(pk=self.row.pk).state
        try:
            services.redrive(self.row.account_id, self.row.id, actor="KEY", now=clock.now())
            self.redrives += 1
        except ValidationException:
            assert was not in DEAD
        else:
            assert was in DEAD

    def an_operator_cancels(self) -> None:
        """Refused once there is an outcome."""
        try:
            row = services.cancel(self.row.account_id, self.row.id, actor="KEY", now=clock.now())
        except ValidationException:
            row = AsyncInvocation.objects.get(pk=self.row.pk)
            assert row.state in ENDED or row.failure_kind or row.is_storing
        assert row.failure_kind or row.state in ENDED or row.is_storing

    def the_redriver_works(self) -> None:
        """One step, with the store there."""
        self._redriver_step(is_away=False)

    def the_redriver_works_without_a_store(self) -> None:
        """One step, with the store away."""
        self._redriver_step(is_away=True)

    def _redriver_step(self, *, is_away: bool) -> None:
        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                await Redriver(site.pool, Closed() if is_away else site.store).step()

        do(work())

    def a_moment_passes(self) -> None:
        """Enough for whatever was put off."""
        self.clock.step(60)

    def hours_pass(self) -> None:
        """Enough for a time to live to end."""
        self.clock.step(timedelta(hours=6, seconds=1).total_seconds())

    def check(self) -> None:
        """The objects, the row and the payload agree."""
        row = AsyncInvocation.objects.get(pk=self.row.pk)
        output, failure = self.object_at(row.output_location), self.object_at(row.failure_location)
        assert not (output and failure), "never both"
        assert (row.state == "completed") == output
        if row.state in ("failed", "expired", "cancelled"):
            assert failure
        if row.state in ("queued", "running") and not row.failure_kind and clock.now() < row.expires_at:
            assert not failure, "nobody may believe an earlier failure while it can still be answered"
        assert (row.ended_at is not None) == (row.state in ENDED)
        is_dropped = row.state == "completed" or row.failure_kind == "cancelled"
        assert AsyncPayload.objects.filter(pk=row.pk).exists() != is_dropped
        assert row.redrives == self.redrives == [step[1] for step in row.timeline].count("redriven")


@pytest.mark.parametrize("seed", range(8))
def test_no_life_of_a_request_shows_an_outcome_that_is_none(fake_clock: FakeClock, seed: int) -> None:
    chance, life = random.Random(seed), Life(fake_clock)
    lived = []
    for _ in range(25):
        deed = chance.choice(life.deeds())
        lived.append(deed.__name__)
        deed()
        try:
            life.check()
        except AssertionError as error:
            raise AssertionError(f"after {lived}: {error}") from error
