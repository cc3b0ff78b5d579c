"""Hearing that something was queued: PostgreSQL's notifications, read as they arrive on a connection of their own.

A notification is a hint: one that is lost only delays work to the next scan. `tell` gives one to all that listen.
"""

import asyncio
import logging
from collections.abc import Callable

import psycopg
from psycopg import sql
from psycopg.pq.abc import PGconn
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import database

AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)


class Doorbell:
    """Calls `rung` with what each notification of a channel says, and once with nothing whenever it begins to listen."""

    def __init__(self, database_url: str, channel: str, rung: Callable[[str], None]) -> None:
        self._database_url = database_url
        self._channel = channel
        self._rung = rung

    async def run(self) -> None:
        """Listen until cancelled, again and again."""
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                log.warning("notifications of the queue are interrupted: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self) -> None:
        """Listen until the connection is lost; raises what it was lost by."""
        loop = asyncio.get_running_loop()
        connection = await database.connect(self._database_url)
        async with connection:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            self._rung("")
            lost: asyncio.Future[None] = loop.create_future()
            # Kept from here on: of a connection that is lost libpq has closed the socket, and knows its number no more.
            socket = connection.fileno()
            loop.add_reader(socket, self._read, socket, database.is_over(socket), connection.pgconn, lost)
            try:
                await lost
            finally:
                if not lost.done() or lost.cancelled():
                    loop.remove_reader(socket)

    def _read(self, socket: int, is_over: Callable[[], bool], connection: PGconn, lost: "asyncio.Future[None]") -> None:
        try:
            self._take_in(connection)
            while is_over():
                self._take_in(connection)
        except Exception as error:  # noqa: BLE001 - handed to whoever waits, who begins anew
            # Before anything else happens: the next socket that is opened gets the same number, and a loop that still
            # watches the old one would never hear of it.
            asyncio.get_running_loop().remove_reader(socket)
            if not lost.done():
                lost.set_exception(error)

    def _take_in(self, connection: PGconn) -> None:
        connection.consume_input()
        while notice := connection.notifies():
            self._rung(notice.extra.decode())


async def tell(pool: AsyncConnectionPool, channel: str, notice: str) -> None:
    """Notify everybody who listens to the channel, if the database is there."""
    try:
        async with pool.connection() as connection:
            await connection.execute("SELECT pg_notify(%s, %s)", [channel, notice])
    except (psycopg.Error, PoolTimeout, OSError) as error:
        log.warning("nobody was told %r: %s", notice, error)
