"""What the gateway knows, kept fresh: the routing table and the access keys.

    start, reconnect    load everything
    NOTIFY              fetch the endpoint it names
    a name not found    fetch that endpoint before saying so
    every 2 s           compare all revisions (a notification may be missed: level, not edge), read the keys again

The table is replaced by one assignment. With the database away the last one keeps serving and its age grows.
"""

import asyncio
import logging
from collections.abc import Iterable
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.auth.secrets import SecretUnreadable, decrypt
from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.routing.table import Route, Table, decode

CHANNEL = "headrace_routing"
COMPARE_SECONDS = 2.0
RECONNECT_SECONDS = 0.5

log = logging.getLogger(__name__)

_ALL_REVISIONS = "SELECT endpoint_id, revision FROM routing_routingsnapshot"
_SOME_DOCUMENTS = "SELECT endpoint_id, revision, document FROM routing_routingsnapshot WHERE endpoint_id = ANY(%s)"
_BY_NAME = """
SELECT endpoint_id FROM routing_routingsnapshot WHERE account_id = %s AND endpoint_name = %s AND document IS NOT NULL
"""
_KEYS = "SELECT access_key_id, secret_encrypted, account_id FROM identity_accesskey WHERE is_active"


class Directory:
    """Routes and keys, as of `age_seconds` ago."""

    def __init__(self, database_url: str, secret_key: str) -> None:
        self._database_url = database_url
        self._secret_key = secret_key
        self._routes: dict[UUID, Route] = {}
        self._revisions: dict[UUID, int] = {}
        self._keys: dict[str, Key] = {}
        self._encrypted: dict[str, str] = {}
        self._fresh_at: float | None = None
        self.table = Table()

    @property
    def age_seconds(self) -> float:
        """How long ago the table was last seen to be current; infinite before the first time."""
        return float("inf") if self._fresh_at is None else clock.monotonic() - self._fresh_at

    def find_key(self, access_key_id: str) -> Key | None:
        """The active key of this id."""
        return self._keys.get(access_key_id)

    async def keep_fresh(self) -> None:
        """Follow the database until cancelled, reconnecting when it was away."""
        while True:
            try:
                await self._follow()
            except (psycopg.Error, OSError) as error:
                log.warning("the routing table cannot be refreshed, serving from the last one: %s", error)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _follow(self) -> None:
        connection = await AsyncConnection.connect(self._database_url, autocommit=True, connect_timeout=5)
        named: set[UUID] = set()
        # A handler hears of notifications that arrive while a query runs as well.
        connection.add_notify_handler(lambda notice: named.add(UUID(notice.payload)))
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            while True:
                await self._compare(connection)
                compare_at = clock.monotonic() + COMPARE_SECONDS
                while (wait := compare_at - clock.monotonic()) > 0:
                    if not named:
                        async for _ in connection.notifies(timeout=wait, stop_after=1):
                            pass
                    fetched = list(named)
                    named.clear()
                    await self._fetch(connection, fetched)

    async def _compare(self, connection: AsyncConnection) -> None:
        """Fetch what has another revision than the one known, drop what is gone, read the keys."""
        async with asyncio.timeout(10):
            stored: dict[UUID, int] = dict(await (await connection.execute(_ALL_REVISIONS)).fetchall())
            changed = [key for key, revision in stored.items() if self._revisions.get(key) != revision]
            gone = self._revisions.keys() - stored.keys()
            for key in gone:
                self._forget(key)
            if changed:
                await self._fetch(connection, changed)
            elif gone:
                self._swap()
            self._take_keys(await (await connection.execute(_KEYS)).fetchall())
        self._fresh_at = clock.monotonic()

    async def look_up(self, account_id: str, endpoint_name: str, pool: AsyncConnectionPool) -> None:
        """Fetch one endpoint at once: what a client was told to be InService must be found, however new it is."""
        try:
            async with pool.connection(timeout=1.0) as connection:
                found = await (await connection.execute(_BY_NAME, [account_id, endpoint_name])).fetchall()
                await self._fetch(connection, [row[0] for row in found])
        except (psycopg.Error, PoolTimeout, OSError) as error:
            log.warning("endpoint %s could not be looked up: %s", endpoint_name, error)

    async def _fetch(self, connection: AsyncConnection, endpoint_ids: Iterable[UUID]) -> None:
        wanted = list(endpoint_ids)
        if not wanted:
            return
        rows = await (await connection.execute(_SOME_DOCUMENTS, [wanted])).fetchall()
        for endpoint_id, revision, document in rows:
            if revision < self._revisions.get(endpoint_id, 0):
                continue
            self._forget(endpoint_id)
            self._revisions[endpoint_id] = revision
            if document is not None:
                self._routes[endpoint_id] = decode(document)
        self._swap()

    def forget(self, endpoint_id: UUID) -> None:
        """Drop an endpoint that was found to be gone, so that the next call looks it up."""
        self._forget(endpoint_id)
        self._swap()

    def _forget(self, endpoint_id: UUID) -> None:
        self._routes.pop(endpoint_id, None)
        self._revisions.pop(endpoint_id, None)

    def _swap(self) -> None:
        self.table = Table.of(self._routes.values())

    def _take_keys(self, rows: list[tuple[str, str, str]]) -> None:
        """Decrypt what is new or changed; a secret that cannot be read is left out and logged."""
        encrypted = {access_key_id: secret for access_key_id, secret, _ in rows}
        if encrypted == self._encrypted:
            return
        keys = {}
        for access_key_id, secret, account_id in rows:
            try:
                keys[access_key_id] = Key(access_key_id, decrypt(secret, self._secret_key), account_id)
            except SecretUnreadable as error:
                log.error("access key %s cannot be used: %s", access_key_id, error)
        self._keys, self._encrypted = keys, encrypted
