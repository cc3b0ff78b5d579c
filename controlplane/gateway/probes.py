"""`/healthz`: the process answers. `/readyz`: an endpoint could be created and served, part by part."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import psycopg
import redis.asyncio
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core.liveness import LIVE_SECONDS
from controlplane.gateway.directory import Directory
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamError, UpstreamRequest
from controlplane.wire.errors import REST_JSON, WireResponse
from controlplane.wire.serialize import dump

ANSWER_SECONDS = 2.0
TABLE_AGE_SECONDS = 10.0
NEEDED_ROLES = ("worker", "scheduler")

_LIVE_ROLES = """
SELECT DISTINCT role FROM observability_heartbeat WHERE seen_at > clock_timestamp() - make_interval(secs => %s)
"""


class NotReady(Exception):
    """One part cannot do its work; the message says why."""


@dataclass
class Probes:
    """Asks every part that serving an endpoint needs."""

    directory: Directory
    pool: AsyncConnectionPool
    upstream: UpstreamClient
    api_address: str
    redis_url: str

    def healthz(self, request_id: str) -> WireResponse:
        """The process answers."""
        return _answer(200, {"status": "ok"}, request_id)

    async def readyz(self, request_id: str) -> WireResponse:
        """200 when every part does its work, else 503; the body names each part."""
        checks: dict[str, Callable[[], Awaitable[None]]] = {
            "database_and_workers": self._database_and_workers,
            "broker": self._broker,
            "routing_table": self._routing_table,
            "api": self._api,
        }
        states = dict(zip(checks, await asyncio.gather(*map(_state, checks.values())), strict=True))
        is_ready = all(state == "ok" for state in states.values())
        return _answer(200 if is_ready else 503, {"status": "ok" if is_ready else "unavailable", **states}, request_id)

    async def _database_and_workers(self) -> None:
        async with self.pool.connection(timeout=ANSWER_SECONDS) as connection:
            rows = await (await connection.execute(_LIVE_ROLES, [LIVE_SECONDS])).fetchall()
        missing = [role for role in NEEDED_ROLES if (role,) not in rows]
        if missing:
            raise NotReady(f"no live {' and no live '.join(missing)}")

    async def _broker(self) -> None:
        client = redis.asyncio.Redis.from_url(self.redis_url, socket_timeout=ANSWER_SECONDS)
        async with client:
            await client.ping()

    async def _routing_table(self) -> None:
        if self.directory.age_seconds > TABLE_AGE_SECONDS:
            raise NotReady(f"{self.directory.age_seconds:.0f} s old")

    async def _api(self) -> None:
        call = UpstreamRequest(b"GET", b"/readyz", [])
        answer = await self.upstream.send(self.api_address, call, Timeouts(ANSWER_SECONDS, ANSWER_SECONDS))
        await answer.read(64 * 1024)
        answer.close()
        if answer.status != 200:
            raise NotReady(f"it answers {answer.status}")


async def _state(check: Callable[[], Awaitable[None]]) -> str:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await check()
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS:g} s"
    except (NotReady, UpstreamError, PoolTimeout, psycopg.Error, redis.RedisError, OSError) as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return "ok"


def _answer(status: int, document: dict[str, str], request_id: str) -> WireResponse:
    return WireResponse(status, (("Content-Type", REST_JSON), ("x-amzn-RequestId", request_id)), dump(document))
