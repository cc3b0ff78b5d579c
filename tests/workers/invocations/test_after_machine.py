"""Random lives of one request: run, failed, crashed, redriven, cancelled, expired, while the store comes and goes.

Whatever happens, in whatever order, whoever waits at the two locations never sees an outcome that is not one.
"""

import io
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from controlplane.core import clock
from controlplane.core.errors import ValidationException
from controlplane.endpoints.models import Endpoint
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


class Lives(RuleBasedStateMachine):
    """One request, and everything that may happen to it."""

    def __init__(self) -> None:
        super().__init__()
        AsyncInvocation.objects.all().delete()
        Endpoint.objects.all().delete()
        self.store = s3()
        self.clock = FakeClock()
        self.previous = clock.use(self.clock)
        at = endpoint(clock.now())
        self.row = queue_up(b"x", endpoint_id=at.id, endpoint_name=at.name)
        self.redrives = 0

    @initialize(is_dead=st.booleans())
    def it_may_be_a_dead_letter_from_the_start(self, is_dead: bool) -> None:
        """Half of the lives begin after a failure: most of what is of interest does."""
        if is_dead:
            self.a_worker_fails()

    def is_state(self, state: str) -> bool:
        """Whether the request is in this state now."""
        return AsyncInvocation.objects.filter(pk=self.row.pk, state=state).exists()

    def object_at(self, location: str) -> bool:
        """Whether there is an object; one client looks for all of them, since making one takes longer than looking."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return bool(self.store.list_objects_v2(Bucket=bucket, Prefix=key).get("KeyCount"))

    def teardown(self) -> None:
        clock.use(self.previous)

    @precondition(lambda self: self.is_state("queued"))
    @rule()
    def a_worker_answers(self) -> None:
        """Claimed, answered and stored; nothing happens when nothing is due."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                for leased in await site.claim(ADDRESS):
                    now = clock.now()
                    await site.runner.outcomes.complete(leased, Answer(io.BytesIO(b"y"), "", 200, now, now))

        do(work())

    @precondition(lambda self: self.is_state("queued"))
    @rule()
    def a_worker_fails(self) -> None:
        """Claimed, and refused by the model."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                for leased in await site.claim(ADDRESS):
                    await site.runner.outcomes.fail(leased, Fail("No.", Kind.MODEL_CLIENT_ERROR))

        do(work())

    @precondition(lambda self: self.is_state("queued"))
    @rule()
    def a_worker_dies(self) -> None:
        """Claimed, and nothing more is heard of it until its lease has run out."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                await site.claim(ADDRESS)
                self.clock.step(LEASE_SECONDS + 1)
                await site.queue.reclaim(10)

        do(work())

    @precondition(lambda self: self.is_state("queued"))
    @rule()
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

    @precondition(lambda self: self.is_state("queued"))
    @rule()
    def decided_failures_are_told(self) -> None:
        """As a worker's chores do."""

        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                for claim in (site.queue.claim_expired, site.queue.claim_decided):
                    for leased in await claim(10):
                        await site.run(leased, ADDRESS)

        do(work())

    @rule()
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

    @rule()
    def an_operator_cancels(self) -> None:
        """Refused once there is an outcome."""
        try:
            row = services.cancel(self.row.account_id, self.row.id, actor="KEY", now=clock.now())
        except ValidationException:
            row = AsyncInvocation.objects.get(pk=self.row.pk)
            assert row.state in ENDED or row.failure_kind or row.is_storing
        assert row.failure_kind or row.state in ENDED or row.is_storing

    @precondition(lambda self: self.is_state("redriving"))
    @rule()
    def the_redriver_works(self) -> None:
        """One step, with the store there."""
        self._redriver_step(is_away=False)

    @precondition(lambda self: self.is_state("redriving"))
    @rule()
    def the_redriver_works_without_a_store(self) -> None:
        """One step, with the store away."""
        self._redriver_step(is_away=True)

    def _redriver_step(self, *, is_away: bool) -> None:
        async def work() -> None:
            async with bench(self.row.endpoint_id) as site:
                await Redriver(site.pool, Closed() if is_away else site.store).step()

        do(work())

    @rule()
    def a_moment_passes(self) -> None:
        """Enough for whatever was put off."""
        self.clock.step(60)

    @rule()
    def hours_pass(self) -> None:
        """Enough for a time to live to end."""
        self.clock.step(timedelta(hours=6, seconds=1).total_seconds())

    @invariant()
    def what_is_seen_is_true(self) -> None:
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


def test_no_life_of_a_request_shows_an_outcome_that_is_none() -> None:
    # The same lives in each run, and unshortened: a step costs many milliseconds of a real store and database.
    lives = settings(
        max_examples=15,
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Lives, settings=lives)
