"""How processes of many tasks reach PostgreSQL: nobody waits for ever, and nobody is kept waiting by a client that is gone.

    it cannot be connected to                        given up after CONNECT_SECONDS, tried again by whoever asks next
    its host has vanished, and the connection with it    noticed by the kernel's probes, ten seconds later
    it is there and does not answer                  the connection is broken after ANSWER_SECONDS
    somebody holds a lock                            the statement ends after LOCK_SECONDS
    the client has vanished, or takes no answer      its statement ends on the server, and lets go of its locks

The last two are settings of the session, made by the server's names for them where it knows them, and not in the start-up
message, which poolers refuse to take them in.
"""

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg_pool import AsyncConnectionPool

CONNECT_SECONDS = 5
ANSWER_SECONDS = 30.0
LOCK_SECONDS = 5

RECONNECT_SECONDS = 2.0
"""How long a pool tries by itself: the pauses between its tries double, so that after a long outage it would stay away for
as long again. Whoever asks next makes it try anew."""

SILENCE: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""How a server that has vanished is given up about ten seconds after it was last heard of."""

_SESSION = {
    "lock_timeout": f"{LOCK_SECONDS}s",
    "statement_timeout": f"{ANSWER_SECONDS:g}s",
    "idle_in_transaction_session_timeout": f"{ANSWER_SECONDS:g}s",
    "tcp_user_timeout": "20s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_CHECK_CLIENT = "SELECT set_config('client_connection_check_interval', '5s', false)"
"""Apart: a server whose system cannot look refuses it."""

T = TypeVar("T")


class Connection(AsyncConnection[Any]):
    """A connection that breaks where the server does not answer within ANSWER_SECONDS."""

    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """As psycopg's; raises OperationalError when it takes too long."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await super().wait(gen, *args, **kwargs)
        except TimeoutError as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the database gave no answer within {ANSWER_SECONDS:g} s") from error


async def connect(database_url: str) -> Connection:
    """A connection in autocommit, with a session of its own; raises psycopg.Error or OSError."""
    connection = await Connection.connect(database_url, autocommit=True, **SILENCE)
    try:
        await begin_session(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def begin_session(connection: AsyncConnection[Any]) -> None:
    """Have the server end what nobody waits for any more."""
    await connection.execute(
        "SELECT set_config(name, wanted.value, false) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)"
        " JOIN pg_settings USING (name)",
        [list(_SESSION), list(_SESSION.values())],
    )
    with suppress(psycopg.DataError):
        await connection.execute(_CHECK_CLIENT)


def pool(database_url: str, *, min_size: int, max_size: int, timeout: float = 30.0) -> AsyncConnectionPool:
    """Connections as `connect` makes them, not opened yet; `timeout` is how many seconds one is waited for."""
    kind: type[AsyncConnection[Any]] = Connection
    return AsyncConnectionPool(
        database_url,
        connection_class=kind,
        kwargs={"autocommit": True, **SILENCE},
        configure=begin_session,
        min_size=min_size,
        max_size=max_size,
        timeout=timeout,
        reconnect_timeout=RECONNECT_SECONDS,
        open=False,
    )


def is_over(descriptor: int) -> Callable[[], bool]:
    """A question to the system: whether the connection of this socket is broken, with what came before perhaps unread.

    For whoever has a loop watch a connection (`add_reader`). uvloop tells of an error once and watches the socket no more,
    and libpq reads a piece at a time: of a backend that was killed its last words, and not the end behind them. Who reads
    on while this is true meets the end.
    """
    errors = select.poll()
    errors.register(descriptor, 0)  # nothing is asked for: errors and a hang-up are told in any case
    return lambda: bool(errors.poll(0))
