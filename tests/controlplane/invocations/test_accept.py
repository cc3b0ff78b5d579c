"""Accepting asynchronous requests over the real database."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from django.conf import settings

from controlplane.core import database
from controlplane.core.errors import ServiceUnavailable
from controlplane.invocations import accept as accepting
from controlplane.invocations import waiting as waiting_room
from controlplane.invocations.accept import Acceptor, EndpointGone
from controlplane.invocations.accepted import Accepted
from controlplane.invocations.notices import CHANNEL

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
ACCOUNT = "123456789012"


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Where Django's test database is."""
    server, _, _ = os.environ["HEADRACE_DATABASE_URL"].rpartition("/")
    return f"{server}/{settings.DATABASES['default']['NAME']}"


@pytest.fixture
def endpoint_id(database_url: str) -> UUID:
    """An endpoint that exists."""
    return make_endpoint(database_url, "InService")


def make_endpoint(database_url: str, phase: str) -> UUID:
    endpoint_id = uuid4()
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO identity_account VALUES (%s, now()) ON CONFLICT DO NOTHING", [ACCOUNT])
        connection.execute(
            "INSERT INTO endpoints_endpoint (id, account_id, name, config_name, is_async, shows_pools, phase,"
            " failure_reason, created_at, modified_at, generation, revision, revisions, why, look_again_at)"
            " VALUES (%s, %s, %s, '', true, false, %s, '', now(), now(), 1, 1, 1, '', now())",
            [endpoint_id, ACCOUNT, endpoint_id.hex, phase],
        )
    return endpoint_id


def request(endpoint_id: UUID, body: bytes = b"x") -> Accepted:
    return Accepted(
        id=str(uuid4()),
        account_id=ACCOUNT,
        endpoint_id=str(endpoint_id),
        endpoint_name="e",
        inference_id="i",
        content_type="text/plain",
        accept="",
        custom_attributes="",
        accepted_at=NOW,
        expires_at=NOW + timedelta(seconds=60),
        timeout_seconds=900,
        output_location="s3://b/o",
        failure_location="",
        body=body,
    )


@asynccontextmanager
async def running(database_url: str) -> AsyncIterator[Acceptor]:
    """An acceptor with its connections."""
    acceptor = Acceptor(database_url)
    try:
        yield acceptor
    finally:
        await acceptor.close()


def with_acceptor(database_url: str, do: Callable[[Acceptor], Awaitable[object]]) -> object:
    async def main() -> object:
        async with running(database_url) as acceptor:
            return await do(acceptor)

    return asyncio.run(main())


def stored(database_url: str) -> dict[str, bytes]:
    """The stored requests and their bodies."""
    with psycopg.connect(database_url) as connection:
        query = "SELECT id, body FROM invocations_asyncinvocation JOIN invocations_asyncpayload ON invocation_id = id"
        return {str(row[0]): bytes(row[1]) for row in connection.execute(query).fetchall()}


def test_requests_made_at_once_are_all_stored_with_their_own_bodies(database_url: str, endpoint_id: UUID) -> None:
    requests = [request(endpoint_id, b"body %d" % number) for number in range(500)]
    with_acceptor(database_url, lambda acceptor: asyncio.gather(*map(acceptor.accept, requests)))
    assert stored(database_url) == {each.id: each.body for each in requests}


def test_callers_share_their_commits(database_url: str, endpoint_id: UUID) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:

        def transactions() -> int:
            row = connection.execute("SELECT count(DISTINCT xmin::text) FROM invocations_asyncinvocation").fetchone()
            return int(row[0]) if row else 0

        requests = [request(endpoint_id) for _ in range(300)]
        with_acceptor(database_url, lambda acceptor: asyncio.gather(*map(acceptor.accept, requests)))
        assert 1 <= transactions() <= 10


@pytest.fixture
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither who waits nor the database gives up while a test holds something."""
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 60.0)
    monkeypatch.setitem(database._SESSION, "lock_timeout", "60s")


@asynccontextmanager
async def held(database_url: str, first: Accepted) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A transaction that whoever stores `first` waits for; what is yielded returns once somebody does."""
    async with await psycopg.AsyncConnection.connect(database_url) as holding:
        await holding.execute("INSERT INTO invocations_asyncpayload (invocation_id, body) VALUES (%s, '')", [first.id])

        async def somebody_waits() -> None:
            waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"
            while (await (await holding.execute(waits)).fetchone()) != (1,):
                await asyncio.sleep(0)

        yield somebody_waits
        await holding.rollback()


@pytest.mark.usefixtures("_no_hurry")
def test_few_wait_while_many_are_under_way_until_they_are_as_many(
    monkeypatch: pytest.MonkeyPatch, database_url: str, endpoint_id: UUID
) -> None:
    monkeypatch.setattr(accepting, "GATHER_SECONDS", 60.0)
    first, *others = (request(endpoint_id) for _ in range(4))

    async def in_pairs(acceptor: Acceptor) -> None:
        async with held(database_url, first) as somebody_waits:
            slow = [asyncio.create_task(acceptor.accept(each)) for each in (first, others[0])]
            await somebody_waits()
            early = asyncio.create_task(acceptor.accept(others[1]))
            await asyncio.sleep(0)  # it is submitted
            await acceptor.accept(others[2])
            await early
            assert not any(each.done() for each in slow)
        await asyncio.gather(*slow)

    with_acceptor(database_url, in_pairs)
    with psycopg.connect(database_url) as connection:
        query = "SELECT array_agg(id::text) FROM invocations_asyncinvocation GROUP BY xmin::text"
        together = {frozenset(row[0]) for row in connection.execute(query).fetchall()}
    assert together == {frozenset((first.id, others[0].id)), frozenset((others[1].id, others[2].id))}


@pytest.mark.usefixtures("_no_hurry")
def test_a_batch_that_hangs_keeps_nobody_waiting_who_came_later(database_url: str, endpoint_id: UUID) -> None:
    first, second, later = (request(endpoint_id) for _ in range(3))

    async def one_by_one(acceptor: Acceptor) -> None:
        async with held(database_url, first) as somebody_waits:
            slow = [asyncio.create_task(acceptor.accept(each)) for each in (first, second)]
            await somebody_waits()
            await acceptor.accept(later)
            assert not any(each.done() for each in slow)
        await asyncio.gather(*slow)

    with_acceptor(database_url, one_by_one)
    assert set(stored(database_url)) == {first.id, second.id, later.id}


@pytest.mark.usefixtures("_no_hurry")
def test_the_request_of_a_caller_that_gives_up_is_not_stored(
    monkeypatch: pytest.MonkeyPatch, database_url: str, endpoint_id: UUID
) -> None:
    monkeypatch.setattr(accepting, "GATHER_SECONDS", 60.0)
    first, second, impatient = (request(endpoint_id) for _ in range(3))

    async def one_leaves(acceptor: Acceptor) -> None:
        async with held(database_url, first) as somebody_waits:
            slow = [asyncio.create_task(acceptor.accept(each)) for each in (first, second)]
            await somebody_waits()
            leaving = asyncio.create_task(acceptor.accept(impatient))
            await asyncio.sleep(0)  # it is submitted
            leaving.cancel()
        await asyncio.gather(*slow)

    with_acceptor(database_url, one_leaves)
    assert set(stored(database_url)) == {first.id, second.id}


def test_one_bad_row_fails_alone(database_url: str, endpoint_id: UUID) -> None:
    good = [request(endpoint_id, b"%d" % number) for number in range(20)]
    bad = request(endpoint_id)._replace(content_type="a\x00b")
    requests = [*good[:10], bad, *good[10:]]

    async def accept_all(acceptor: Acceptor) -> list[object]:
        return await asyncio.gather(*map(acceptor.accept, requests), return_exceptions=True)

    results = with_acceptor(database_url, accept_all)
    assert isinstance(results, list)
    assert [isinstance(each, psycopg.Error) for each in results] == [each is bad for each in requests]
    assert set(stored(database_url)) == {each.id for each in good}


def test_a_text_that_is_no_unicode_fails_alone(database_url: str, endpoint_id: UUID) -> None:
    good = [request(endpoint_id) for _ in range(2)]
    bad = request(endpoint_id)._replace(custom_attributes="\udc80")

    async def accept_all(acceptor: Acceptor) -> list[object]:
        return await asyncio.gather(*map(acceptor.accept, [good[0], bad, good[1]]), return_exceptions=True)

    first, refused, last = with_acceptor(database_url, accept_all)  # type: ignore[misc]
    assert (first, type(refused), last) == (None, psycopg.DataError, None)
    assert set(stored(database_url)) == {each.id for each in good}


@pytest.mark.parametrize("phase", ["Deleting", "Failed", None])
def test_an_endpoint_that_is_gone_gets_nothing_and_its_neighbours_do(
    database_url: str, endpoint_id: UUID, phase: str | None
) -> None:
    gone = uuid4() if phase is None else make_endpoint(database_url, phase)
    lost, kept = request(gone), request(endpoint_id)

    async def accept_both(acceptor: Acceptor) -> list[object]:
        return await asyncio.gather(acceptor.accept(lost), acceptor.accept(kept), return_exceptions=True)

    results = with_acceptor(database_url, accept_both)
    assert isinstance(results, list)
    assert [type(each) for each in results] == [EndpointGone, type(None)]
    assert set(stored(database_url)) == {kept.id}


def test_a_request_whose_commit_was_not_heard_of_is_found_and_not_stored_twice(
    database_url: str, endpoint_id: UUID
) -> None:
    same = request(endpoint_id)

    async def twice(acceptor: Acceptor) -> None:
        await acceptor.accept(same)
        await acceptor.accept(same)

    with_acceptor(database_url, twice)
    assert stored(database_url) == {same.id: same.body}


def test_connections_that_were_cut_while_idle_cost_no_request(database_url: str, endpoint_id: UUID) -> None:
    requests = [request(endpoint_id) for _ in range(10)]

    async def accept_after_a_cut(acceptor: Acceptor) -> None:
        await acceptor.accept(requests[0])
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle'"
                " AND query LIKE '%asyncinvocation%'"
            )
        for each in requests[1:]:
            await acceptor.accept(each)

    with_acceptor(database_url, accept_after_a_cut)
    assert set(stored(database_url)) == {each.id for each in requests}


def test_without_a_database_the_caller_is_told_in_bounded_time_and_is_then_dropped(
    monkeypatch: pytest.MonkeyPatch, database_url: str, endpoint_id: UUID
) -> None:
    """By the acceptor: the database itself would wait for the lock for longer than this test does."""
    monkeypatch.setitem(database._SESSION, "lock_timeout", "60s")

    async def locked_out(acceptor: Acceptor) -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await connection.execute("LOCK TABLE invocations_asyncinvocation IN ACCESS EXCLUSIVE MODE")
            since = asyncio.get_running_loop().time()
            monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 0.5)
            with pytest.raises(ServiceUnavailable):
                await acceptor.accept(request(endpoint_id))
            assert asyncio.get_running_loop().time() - since < 30
            await connection.rollback()
        monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 60.0)
        await acceptor.accept(request(endpoint_id))

    with_acceptor(database_url, locked_out)


def test_more_requests_than_may_wait_are_refused_at_once(monkeypatch: pytest.MonkeyPatch, endpoint_id: UUID) -> None:
    monkeypatch.setattr(accepting, "WAITING_LIMIT", 3)
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 1.0)

    async def main() -> list[object]:
        acceptor = Acceptor("postgresql://127.0.0.1:1/nowhere")
        calls = [asyncio.create_task(acceptor.accept(request(endpoint_id))) for _ in range(5)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert sum(each.done() for each in calls) == 2
        return await asyncio.gather(*calls, return_exceptions=True)

    assert [type(each) for each in asyncio.run(main())] == [ServiceUnavailable] * 5


def test_the_dispatcher_is_told_at_which_endpoints_something_was_stored(database_url: str, endpoint_id: UUID) -> None:
    other = make_endpoint(database_url, "InService")
    requests = [request(each) for each in (endpoint_id, other, endpoint_id)]
    alone = request(other)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        with_acceptor(database_url, lambda acceptor: acceptor.insert(requests))
        with_acceptor(database_url, lambda acceptor: acceptor.insert([alone]))
        told = list(connection.notifies(timeout=30, stop_after=3))
    assert {notice.channel for notice in told} == {CHANNEL}
    named = [str(endpoint_id), f"{other} {requests[1].id}", f"{other} {alone.id}"]  # of several at once none is named
    assert sorted(notice.payload for notice in told) == sorted(named)
