"""Writing what became of requests while the database is away."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import psycopg
import pytest
from django.db import connection

from controlplane.invocations.models import AsyncInvocation
from controlplane.invocations.steps import Step
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import bench, do, queue_up
from tests.workers.outage import cut_connections, database_away
from workers.invocations.leased import Leased
from workers.invocations.patient import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PATIENCE_SECONDS, PatientLedger
from workers.invocations.plan import Fail, Kind

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1:9"
FAILURE = Fail("It failed.", Kind.NO_ANSWER)

Write = Callable[[PatientLedger, Leased], Awaitable[bool]]


async def start_storing(ledger: PatientLedger, leased: Leased) -> bool:
    return await ledger.start_storing(leased, leased.step(Step.SENT), leased.step(Step.ANSWERED))


async def complete(ledger: PatientLedger, leased: Leased) -> bool:
    return await ledger.complete(leased, leased.step(Step.STORED))


async def decide_failure(ledger: PatientLedger, leased: Leased) -> bool:
    return await ledger.decide_failure(leased, FAILURE)


async def end(ledger: PatientLedger, leased: Leased) -> bool:
    return await ledger.end(leased, "failed", [], [], FAILURE)


async def retry(ledger: PatientLedger, leased: Leased) -> bool:
    return await ledger.retry(leased, leased.accepted_at, [])


def written(
    write: Write, before: Callable[[], object] = lambda: None, pause: Callable[[float], object] = lambda seconds: None
) -> AsyncInvocation:
    """The row after something was written of it, `before` which something happens; what is done in each pause."""
    row = queue_up()

    async def paused(seconds: float) -> None:
        pause(seconds)

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(HERE)
            site.ledger.pause = paused
            before()
            assert await write(site.ledger, leased)

    do(work())
    connection.close()  # it was cut with the others
    row.refresh_from_db()
    return row


@pytest.mark.parametrize(
    ("write", "state", "failure"),
    [
        (start_storing, "running", ""),
        (complete, "completed", ""),
        (decide_failure, "running", "no_answer"),
        (end, "failed", "no_answer"),
        (retry, "queued", ""),
    ],
    ids=["start_storing", "complete", "decide_failure", "end", "retry"],
)
def test_what_is_written_while_connections_are_cut_is_written_all_the_same(write: Write, state: str, failure: str) -> None:
    paused: list[float] = []
    row = written(write, cut_connections, paused.append)
    assert (row.state, row.failure_kind) == (state, failure)
    assert paused[:1] == [FIRST_PAUSE_SECONDS]


def test_a_database_that_is_away_is_waited_for() -> None:
    with ExitStack() as outage:
        row = written(end, lambda: outage.enter_context(database_away()), lambda seconds: outage.close())
    assert row.state == "failed"


def test_a_write_that_the_database_refuses_is_not_tried_again() -> None:
    async def refused(ledger: PatientLedger, leased: Leased) -> bool:
        with pytest.raises(psycopg.DataError):
            await ledger.decide_failure(leased, Fail("a\x00b", Kind.NO_ANSWER))
        return True

    paused: list[float] = []
    assert written(refused, pause=paused.append).state == "running"
    assert paused == []


def test_a_lease_that_was_lost_meanwhile_is_the_end_of_it() -> None:
    async def late(ledger: PatientLedger, leased: Leased) -> bool:
        assert await ledger.retry(leased, leased.accepted_at, [])
        return not await complete(ledger, leased)

    assert written(late, cut_connections).state == "queued"


def test_patience_has_an_end_and_pauses_grow(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(ledger: PatientLedger, leased: Leased) -> bool:
        async def refuse(*_: object, **__: object) -> bool:
            raise psycopg.OperationalError("away")

        monkeypatch.setattr(ledger, "_update", refuse)
        with pytest.raises(psycopg.OperationalError, match="away"):
            await decide_failure(ledger, leased)
        return True

    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        fake_clock.step(seconds)

    written(fails, pause=pause)
    assert paused == sorted(paused)
    assert (paused[0], paused[-1]) == (FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    assert PATIENCE_SECONDS <= sum(paused) < PATIENCE_SECONDS + LONGEST_PAUSE_SECONDS
