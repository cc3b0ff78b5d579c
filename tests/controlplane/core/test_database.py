"""How processes of many tasks reach PostgreSQL: whatever happens to it, or to a client, nobody waits for ever."""

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
import uvloop
from psycopg import AsyncConnection
from psycopg_pool import PoolTimeout

from controlplane.core import database
from tests.controlplane.routing.peers import free_port
from tests.fakes.relay import Relay

URL = os.environ.get("HEADRACE_DATABASE_URL", "")

Way = Callable[[str, str], Awaitable[Any]]


async def _by_connection(url: str, statement: str) -> Any:
    async with await database.connect(url) as connection:
        return await (await connection.execute(statement)).fetchone()


async def _by_cursor_of_a_pool(url: str, statement: str) -> Any:
    async with (
        database.pool(url, min_size=1, max_size=2, timeout=10.0) as pool,
        pool.connection() as connection,
        connection.cursor() as cursor,
    ):
        return await (await cursor.execute(statement)).fetchone()


WAYS = pytest.mark.parametrize("way", [_by_connection, _by_cursor_of_a_pool], ids=["connection", "cursor of a pool"])


@WAYS
def test_a_statement_without_an_answer_is_given_up(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is broken, and the database ends it some time later."""
    monkeypatch.setattr(database, "ANSWER_SECONDS", 0.5)

    async def main() -> None:
        async with asyncio.timeout(30):
            with pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.5 s"):
                await way(URL, "SELECT pg_sleep(60)")

    uvloop.run(main())


def test_a_host_that_says_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(relay: Relay) -> None:
        async with asyncio.timeout(60):
            connection = await database.connect(relay.url)
            monkeypatch.setattr(database, "ANSWER_SECONDS", 1.0)
            relay.fall_silent()
            with pytest.raises(psycopg.OperationalError):
                await connection.execute("SELECT 1")
            assert connection.closed

    with Relay(URL) as relay:
        uvloop.run(main(relay))


def test_whoever_holds_a_lock_for_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database._SESSION, "lock_timeout", "200ms")

    async def main() -> None:
        async with await AsyncConnection.connect(URL) as other:
            await other.execute("SELECT pg_advisory_xact_lock(4711)")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await _by_connection(URL, "SELECT pg_advisory_xact_lock(4711)")

    uvloop.run(main())


def test_a_session_is_told_to_end_what_nobody_waits_for() -> None:
    names = "'lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'client_connection_check_interval'"
    statement = f"SELECT json_object_agg(name, setting) FROM pg_settings WHERE name IN ({names})"

    async def main() -> list[Any]:
        return [(await way(URL, statement))[0] for way in (_by_connection, _by_cursor_of_a_pool)]

    for found in uvloop.run(main()):
        assert found == {
            "lock_timeout": "5000",
            "statement_timeout": "30000",
            "idle_in_transaction_session_timeout": "30000",
            "client_connection_check_interval": "5000",
        }


def test_after_an_outage_a_pool_is_there_at_once_for_whoever_asks() -> None:
    """However long it was: the pool's own pauses would grow with it."""
    port = free_port()
    with Relay(URL, port) as gone:
        url = gone.url

    async def main() -> Any:
        pool = database.pool(url, min_size=1, max_size=2)
        await pool.open(wait=False)
        try:
            with pytest.raises(PoolTimeout):
                await pool.getconn(timeout=9.0)
            with Relay(URL, port):
                async with pool.connection(timeout=5.0) as connection:
                    return await (await connection.execute("SELECT 1")).fetchone()
        finally:
            await pool.close()

    assert uvloop.run(main()) == (1,)


@pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "open"])
def test_a_connection_is_over_once_it_was_reset_whatever_is_still_to_be_read(is_reset: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        is_over = database.is_over(client.fileno())
        with peer:
            peer.sendall(b"last words")
            if is_reset:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
            assert is_over() == is_reset
            assert client.recv(100) == b"last words"
