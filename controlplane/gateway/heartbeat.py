"""The gateway's report, every second: it lives, and how many calls each instance has. The answer says what time it is.

`draining` is the acknowledgement of a drain: it lists every instance that this gateway's table shows as draining, so an
instance is drained once every live gateway lists it with 0.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.gateway.directory import Directory
from controlplane.routing.policies import InFlight
from controlplane.routing.table import Table

PERIOD_SECONDS = 1.0

log = logging.getLogger(__name__)

_REPORT = """
INSERT INTO fleet_gatewayheartbeat (gateway_id, seen_at, table_age_seconds, draining, in_flight)
VALUES (%s, clock_timestamp(), %s, %s, %s)
ON CONFLICT (gateway_id) DO UPDATE SET seen_at = excluded.seen_at, table_age_seconds = excluded.table_age_seconds,
    draining = excluded.draining, in_flight = excluded.in_flight
"""
_BEAT = """
INSERT INTO observability_heartbeat (role, process_id, seen_at) VALUES ('gateway', %s, clock_timestamp())
ON CONFLICT (role, process_id) DO UPDATE SET seen_at = excluded.seen_at
RETURNING seen_at
"""
_LEAVE = """
WITH beat AS (DELETE FROM observability_heartbeat WHERE role = 'gateway' AND process_id = %(id)s)
DELETE FROM fleet_gatewayheartbeat WHERE gateway_id = %(id)s
"""


async def report(
    gateway_id: str,
    directory: Directory,
    in_flight: InFlight,
    pool: AsyncConnectionPool,
    tell: Callable[[datetime], None],
) -> None:
    """Report until cancelled; `tell` is called with the database's time."""
    while True:
        try:
            tell(await _report_once(gateway_id, directory, in_flight, pool))
        except (psycopg.Error, PoolTimeout, OSError) as error:
            log.warning("the heartbeat could not be written: %s", error)
        await asyncio.sleep(PERIOD_SECONDS)


async def leave(gateway_id: str, pool: AsyncConnectionPool) -> None:
    """Say goodbye, so that nobody waits for this gateway's acknowledgement."""
    try:
        async with pool.connection(timeout=1.0) as connection:
            await connection.execute(_LEAVE, {"id": gateway_id})
    except (psycopg.Error, PoolTimeout, OSError) as error:
        log.warning("the heartbeat could not be withdrawn: %s", error)


async def _report_once(gateway_id: str, directory: Directory, in_flight: InFlight, pool: AsyncConnectionPool) -> datetime:
    # Table and counts are read at one moment, without a pause: a call chosen before is counted, a later one goes by
    # this table or a newer one.
    draining = {instance_id: in_flight.at(instance_id) for instance_id in _draining(directory.table)}
    age = min(directory.age_seconds, 1e9)
    async with pool.connection(timeout=2.0) as connection:
        await connection.execute(_REPORT, [gateway_id, age, Jsonb(draining), Jsonb(in_flight.busy())])
        [[now]] = await (await connection.execute(_BEAT, [gateway_id])).fetchall()
    told: datetime = now
    return told


def _draining(table: Table) -> list[str]:
    return [
        target.instance_id
        for route in table.routes.values()
        for variant in (*route.variants, *route.shadows)
        for target in variant.targets
        if target.is_draining
    ]
