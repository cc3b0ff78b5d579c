"""What the gateway knows, kept fresh: the routing table, the access keys and the API tokens.

    start, reconnect      load everything
    NOTIFY                fetch the endpoint it names
    a name, a key unknown ask before saying so
    every 2 s             compare all revisions (a notification may be missed: level, not edge), read keys and tokens again

The table is replaced by one assignment. With the database away the last one keeps serving and its age grows; what it
does not hold can then be neither served nor denied, and the caller is told to come back.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, Notify
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import clock, database
from controlplane.core.errors import ServiceUnavailable
from controlplane.gateway.keys import KeyRing
from controlplane.gateway.tokens import TokenRing
from controlplane.routing.table import CHANNEL, Route, Table, decode

COMPARE_SECONDS = 2.0
RECONNECT_SECONDS = 0.5
QUERY_SECONDS = 10.0
ASK_SECONDS = 1.0
"""How long a caller waits for the database to be asked about what is not known; also how often keys are asked for."""

log = logging.getLogger(__name__)

_ALL_REVISIONS = "SELECT endpoint_id, revision FROM routing_routingsnapshot"
_SOME_DOCUMENTS = "SELECT endpoint_id, revision, document FROM routing_routingsnapshot WHERE endpoint_id = ANY(%s)"
_BY_NAME = """
SELECT endpoint_id FROM routing_routingsnapshot WHERE account_id = %s AND endpoint_name = %s AND document IS NOT NULL
"""

DATABASE_FAULTS = (psycopg.Error, PoolTimeout, OSError)
"""What the database's absence looks like; a TimeoutError is an OSError."""


class Directory:
    """Routes and keys, as of `age_seconds` ago."""

    def __init__(self, database_url: str, secret_key: str, pool: AsyncConnectionPool) -> None:
        self._database_url = database_url
        self._pool = pool
        self._routes: dict[UUID, Route] = {}
        self._revisions: dict[UUID, int] = {}
        self._fresh_at: float | None = None
        self._keys_asked_at = float("-inf")
        self._next_asking: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self.keys = KeyRing(secret_key)
        self.tokens = TokenRing()
        self.table = Table()

    @property
    def age_seconds(self) -> float:
        """How long ago the table was last seen to be current; infinite before the first time."""
        return float("inf") if self._fresh_at is None else clock.monotonic() - self._fresh_at

    async def keep_fresh(self) -> None:
        """Follow the database until cancelled, reconnecting when it was away."""
        while True:
            try:
                await self._follow()
            except DATABASE_FAULTS as error:
                log.warning("the routing table cannot be refreshed, serving from the last one: %s", error)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def route(self, account_id: str, endpoint_name: str) -> Route | None:
        """The account's endpoint of that name, if it serves. What a client was told to be InService is found, however
        new it is: the database is asked before an endpoint is said not to serve. Raises ServiceUnavailable."""
        route = self.table.find(account_id, endpoint_name)
        if route is None or not route.is_serving:
            await self._look_up(account_id, endpoint_name)
            route = self.table.find(account_id, endpoint_name)
        return route if route is not None and route.is_serving else None

    async def knows_key(self, access_key_id: str) -> bool:
        """Whether there is such a key, however new; raises ServiceUnavailable when none was ever read."""
        return await self._knows(lambda: self.keys.find(access_key_id) is not None)

    async def knows_token(self, digest: str) -> bool:
        """Whether there is an API token of this digest, as `knows_key`."""
        return await self._knows(lambda: self.tokens.knows(digest))

    async def _knows(self, is_known: Callable[[], bool]) -> bool:
        if not is_known():
            self._next_asking = self._next_asking or asyncio.create_task(self._ask_in_turn())
            await asyncio.shield(self._next_asking)
        if self._fresh_at is None:
            raise ServiceUnavailable("The gateway has just started and knows nothing yet. Try again in a moment.")
        return is_known()

    def forget(self, endpoint_id: UUID) -> None:
        """Drop an endpoint that was found to be gone, so that the next call looks it up."""
        self._drop(endpoint_id)
        self._swap()

    async def _follow(self) -> None:
        connection = await database.connect(self._database_url)
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            # What cut this connection has cut the pool's idle ones as well. Not cancelled: `check` would not heed that.
            self._checking = asyncio.create_task(self._pool.check())
            await asyncio.wait([self._checking], timeout=QUERY_SECONDS)
            # It may be another database now, a standby or a restored backup, where these numbers name other documents.
            self._revisions = dict.fromkeys(self._revisions, 0)
            while True:
                async with asyncio.timeout(QUERY_SECONDS):
                    await self._compare(connection)
                await self._listen(connection, clock.monotonic() + COMPARE_SECONDS)

    async def _listen(self, connection: AsyncConnection[Any], until: float) -> None:
        """Fetch what notifications name, until it is time to compare. Those that arrive during a query are kept."""
        while (wait := until - clock.monotonic()) > 0:
            notices = [notice async for notice in connection.notifies(timeout=wait, stop_after=1)]
            named = {endpoint_id for notice in notices if (endpoint_id := _named(notice)) is not None}
            async with asyncio.timeout(QUERY_SECONDS):
                await self._fetch(connection, named)

    async def _compare(self, connection: AsyncConnection[Any]) -> None:
        """Fetch what has another revision than the one known, drop what is gone, read the keys."""
        stored: dict[UUID, int] = dict(await (await connection.execute(_ALL_REVISIONS)).fetchall())
        changed = [key for key, revision in stored.items() if self._revisions.get(key) != revision]
        for key in self._revisions.keys() - stored.keys():
            self.forget(key)
        await self._fetch(connection, changed)
        await self.keys.read(connection)
        await self.tokens.read(connection)
        self._fresh_at = clock.monotonic()

    async def _look_up(self, account_id: str, endpoint_name: str) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS), self._pool.connection(timeout=ASK_SECONDS) as connection:
                found = await (await connection.execute(_BY_NAME, [account_id, endpoint_name])).fetchall()
                await self._fetch(connection, [row[0] for row in found])
        except DATABASE_FAULTS as error:
            raise ServiceUnavailable("The endpoint cannot be looked up now. Try again in a moment.") from error

    async def _ask_in_turn(self) -> None:
        """Strangers cost one query a second, however many they are; whoever comes before it is sent waits for it."""
        await asyncio.sleep(self._keys_asked_at + ASK_SECONDS - clock.monotonic())
        self._keys_asked_at, self._next_asking = clock.monotonic(), None
        await self._ask_for_keys()

    async def _ask_for_keys(self) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS), self._pool.connection(timeout=ASK_SECONDS) as connection:
                await self.keys.read(connection)
                await self.tokens.read(connection)
        except DATABASE_FAULTS as error:
            log.warning("the access keys and tokens cannot be read: %s", error)

    async def _fetch(self, connection: AsyncConnection[Any], endpoint_ids: Iterable[UUID]) -> None:
        wanted = list(endpoint_ids)
        if not wanted:
            return
        for endpoint_id, revision, document in await (await connection.execute(_SOME_DOCUMENTS, [wanted])).fetchall():
            if revision >= self._revisions.get(endpoint_id, 0):
                self._take(endpoint_id, revision, document)
        self._swap()

    def _take(self, endpoint_id: UUID, revision: int, document: Mapping[str, Any] | None) -> None:
        """Take over a document, None = a tombstone. One that cannot be read leaves the endpoint as it was known."""
        try:
            route = None if document is None else decode(document)
        except (KeyError, TypeError, ValueError) as error:
            log.error("the document of endpoint %s, revision %d, cannot be read: %r", endpoint_id, revision, error)
            route = self._routes.get(endpoint_id)
        self._drop(endpoint_id)
        self._revisions[endpoint_id] = revision
        if route is not None:
            self._routes[endpoint_id] = route

    def _drop(self, endpoint_id: UUID) -> None:
        self._routes.pop(endpoint_id, None)
        self._revisions.pop(endpoint_id, None)

    def _swap(self) -> None:
        self.table = Table.of(self._routes.values())


def _named(notice: Notify) -> UUID | None:
    """The endpoint that a notification names."""
    try:
        return UUID(notice.payload)
    except ValueError:
        log.warning("a notification on %s names no endpoint", CHANNEL)
        return None
