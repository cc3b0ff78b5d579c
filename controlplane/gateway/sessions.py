"""Sticky sessions: which instance has which session, until it expires.

    NEW_SESSION -> any instance, whose answer names the session and its end -> kept -> calls with its id go there
        kept -> closed by the container, over, or its instance gone or draining -> unknown: a ValidationError

The container makes and ends sessions; the gateway only remembers where they are. Memory answers first. PostgreSQL has them
too, so that they survive a restart of the gateway and are known to its siblings: the row is committed before the client
hears of its session. With the database away a new session lives in this gateway's memory only. Nothing migrates: what the
container holds of a session goes with its instance. Source: contract, data plane 1.8.
"""

import asyncio
import logging
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.errors import ServiceUnavailable, ValidationError
from controlplane.gateway.directory import DATABASE_FAULTS
from controlplane.routing.table import Route, Target, VariantRoute

NEW_SESSION = "NEW_SESSION"
"""What a caller sends in place of an id to be given one."""

NEW_SESSION_HEADER, CLOSED_SESSION_HEADER = b"x-amzn-sagemaker-new-session-id", b"x-amzn-sagemaker-closed-session-id"
"""What a container says of sessions; passed on to the caller."""

DEFAULT_LIFE = timedelta(seconds=1200)
"""Of a session whose container does not say when it ends."""

LONGEST_ID = 256
MOST_IN_MEMORY = 50_000
QUERY_SECONDS = 1.0
SWEEP_SECONDS = 60.0

_NEW = re.compile(r"(?P<id>[a-zA-Z0-9](?:-*[a-zA-Z0-9])*)(?:;\s*Expires=(?P<end>\S+))?")
_STORE = """
INSERT INTO routing_session (endpoint_id, session_id, instance_id, expires_at) VALUES (%s, %s, %s, %s)
ON CONFLICT (endpoint_id, session_id) DO UPDATE SET instance_id = excluded.instance_id, expires_at = excluded.expires_at
"""
_FIND = "SELECT instance_id, expires_at FROM routing_session WHERE endpoint_id = %s AND session_id = %s"
_CLOSE = "DELETE FROM routing_session WHERE endpoint_id = %s AND session_id = %s"
_SWEEP = "DELETE FROM routing_session WHERE expires_at < %s"

log = logging.getLogger(__name__)

_Key = tuple[str, str]
"""Endpoint id, session id."""


@dataclass(frozen=True)
class Session:
    """Where a session is, and until when."""

    instance_id: str
    expires_at: datetime


@dataclass
class Sessions:
    """The sessions that this gateway knows of."""

    pool: AsyncConnectionPool
    _known: dict[_Key, Session] = field(default_factory=dict)

    async def find(self, route: Route, session_id: str) -> str:
        """The id of the instance that has the session; raises ValidationError, or ServiceUnavailable."""
        key = (route.endpoint_id, session_id)
        session = self._known.get(key) or await self._read(key)
        if session is None or session.expires_at <= clock.now():
            self._known.pop(key, None)
            raise gone(route, session_id)
        return session.instance_id

    async def follow(self, route: Route, target: Target, opened: str, closed: str) -> None:
        """Remember and forget what an instance's answer says, in its headers, of sessions; empty where it says nothing."""
        if closed:
            await self._close((route.endpoint_id, closed))
        session = read_new(opened, clock.now())
        if session is not None:
            session_id, expires_at = session
            await self._open((route.endpoint_id, session_id), Session(target.instance_id, expires_at))

    async def sweep(self) -> None:
        """Forget what has ended, once a minute, until cancelled."""
        while True:
            now = clock.now()
            self._known = {key: session for key, session in self._known.items() if session.expires_at > now}
            await self._write(_SWEEP, now)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _read(self, key: _Key) -> Session | None:
        try:
            async with asyncio.timeout(QUERY_SECONDS), self.pool.connection(timeout=QUERY_SECONDS) as connection:
                row = await (await connection.execute(_FIND, key)).fetchone()
        except DATABASE_FAULTS as error:
            raise ServiceUnavailable("The session cannot be looked up now. Try again in a moment.") from error
        if row is None:
            return None
        return self._remember(key, Session(*row))

    async def _open(self, key: _Key, session: Session) -> None:
        self._remember(key, session)
        await self._write(_STORE, *key, session.instance_id, session.expires_at)

    async def _close(self, key: _Key) -> None:
        self._known.pop(key, None)
        await self._write(_CLOSE, *key)

    def _remember(self, key: _Key, session: Session) -> Session:
        while len(self._known) >= MOST_IN_MEMORY:
            del self._known[next(iter(self._known))]  # the oldest; the database still has it
        self._known[key] = session
        return session

    async def _write(self, statement: str, *values: object) -> None:
        try:
            async with asyncio.timeout(QUERY_SECONDS), self.pool.connection(timeout=QUERY_SECONDS) as connection:
                await connection.execute(statement, values)
        except DATABASE_FAULTS as error:
            log.warning("sessions could not be written, this gateway's memory has them: %s", error)


def read_new(text: str, now: datetime) -> tuple[str, datetime] | None:
    """A session's id and end, as a container names them (`id; Expires=2026-11-03T12:00:00Z`); None where it names none."""
    match = _NEW.fullmatch(text.strip())
    if match is None or len(match["id"]) > LONGEST_ID:
        return None
    try:
        end = datetime.fromisoformat(match["end"]) if match["end"] else now + DEFAULT_LIFE
    except ValueError:
        end = now + DEFAULT_LIFE
    return match["id"], end if end.tzinfo else end.replace(tzinfo=UTC)


def place_of(route: Route, instance_id: str, session_id: str) -> tuple[VariantRoute, Target]:
    """The variant and the target of the instance that has a session; raises ValidationError when it takes no calls now."""
    for variant in route.variants:
        for target in variant.open_targets:
            if target.instance_id == instance_id:
                return variant, target
    raise gone(route, session_id)


def gone(route: Route, session_id: str) -> ValidationError:
    """The error for a session that is not, or no longer, known."""
    return ValidationError(f"Session {session_id} of endpoint {route.endpoint_name} was not found or has ended.")
