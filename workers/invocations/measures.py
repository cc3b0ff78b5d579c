"""Measures of asynchronous invocations, by EndpointName and VariantName (contract, control plane 8.6).

    something ended --> its value (dictionary look-ups, one event loop) --> with each `write`: the buckets that changed

A bucket is written whole under the name of this run, so that writing it again changes nothing and several workers add up.
What was counted and could not be written is kept, for as long as MOST_BUCKETS allow. What is counted here is not what
`controlplane.gateway.counting` counts of the same calls (errors and ModelLatency), so the two never meet.
"""

import asyncio
import logging
from math import inf

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.gateway.tally import Spread
from controlplane.metrics import store
from controlplane.metrics.series import BUCKET_SECONDS, OWN_NAMESPACE, MetricSetKey, bucket_start
from controlplane.metrics.statistics import Aggregate
from workers.invocations.leased import Leased

PERIOD_SECONDS = 1.0
WRITE_SECONDS = 2.0
MOST_BUCKETS = 90

COUNT, MICROSECONDS, MILLISECONDS = "Count", "Microseconds", "Milliseconds"

DOWNLOAD_FAILURES = "RequestDownloadFailures"
DOWNLOAD_LATENCY = "RequestDownloadLatency"
UPLOAD_FAILURES = "ResponseUploadFailures"
UPLOAD_LATENCY = "ResponseUploadLatency"
NOTIFICATION_FAILURES = "NotificationFailures"
EXPIRED = "ExpiredRequests"
FAILURES = "InvocationFailures"
PROCESSED = "InvocationsProcesssed"
"""With three s, as the mirrored service spells it."""

TIME_IN_BACKLOG = "TimeInBacklog"
TOTAL_PROCESSING_TIME = "TotalProcessingTime"

Place = tuple[str, str, str]
"""Account, endpoint, variant."""

_Bucket = dict[Place, dict[tuple[str, str], Spread]]

log = logging.getLogger(__name__)


def place_of(leased: Leased) -> Place:
    """Where what happens to this invocation is counted."""
    return leased.account_id, leased.endpoint_name, leased.variant_name


class Measures:
    """What this run of a worker has counted."""

    def __init__(self) -> None:
        self.source = f"async:{new_uuid().hex}"
        self._buckets: dict[int, _Bucket] = {}
        self._changed: set[tuple[int, Place]] = set()
        self._current_start, self._current_until = 0, -inf

    def count(self, place: Place, name: str, value: float = 1.0, unit: str = COUNT) -> None:
        """Count one value, 0 or more; what has no variant is nobody's."""
        if not place[2]:
            return
        start = self._start()
        metrics = self._buckets.setdefault(start, {}).setdefault(place, {})
        spread = metrics.get((name, unit))
        if spread is None:
            spread = metrics[name, unit] = Spread()
        spread.add(max(value, 0.0))
        self._changed.add((start, place))

    def _start(self) -> int:
        """The start of this moment's bucket; the wall clock is asked once a bucket."""
        now = clock.monotonic()
        if now >= self._current_until:
            seconds = clock.now().timestamp()
            self._current_start = bucket_start(seconds)
            self._current_until = now + self._current_start + BUCKET_SECONDS - seconds
            self._forget()
        return self._current_start

    def _forget(self) -> None:
        """Let go of what is over and written, and, where too much cannot be written, of the oldest."""
        waiting = {start for start, _ in self._changed}
        kept = sorted(start for start in self._buckets if start in waiting or start >= self._current_start - BUCKET_SECONDS)
        if len(kept) > MOST_BUCKETS:
            log.warning("metrics could not be written for too long and are lost")
            kept = kept[-MOST_BUCKETS:]
        self._buckets = {start: self._buckets[start] for start in kept}
        self._changed = {(start, place) for start, place in self._changed if start in self._buckets}

    def taken(self) -> tuple[set[tuple[int, Place]], list[store.Bucket]]:
        """What changed since the last time, and the buckets to write for it; give it `back` if that fails."""
        changed, self._changed = self._changed, set()
        return changed, [self._bucket(start, place) for start, place in sorted(changed)]

    def back(self, changed: set[tuple[int, Place]]) -> None:
        """These were not written after all."""
        self._changed |= changed

    def _bucket(self, start: int, place: Place) -> store.Bucket:
        account, endpoint, variant = place
        metrics: dict[str, dict[str, Aggregate]] = {}
        for (name, unit), spread in self._buckets[start][place].items():
            metrics.setdefault(name, {})[unit] = spread.aggregate()
        key = MetricSetKey(account, OWN_NAMESPACE, {"EndpointName": endpoint, "VariantName": variant})
        return store.Bucket(key, start, self.source, metrics)


async def report(measures: Measures, pool: AsyncConnectionPool) -> None:
    """Write what has changed, every second, until cancelled."""
    while True:
        await write(measures, pool)
        await asyncio.sleep(PERIOD_SECONDS)


async def write(measures: Measures, pool: AsyncConnectionPool) -> None:
    """Write what has changed; with the database away it is kept for the next time."""
    changed, buckets = measures.taken()
    if not buckets:
        return
    try:
        async with pool.connection(timeout=WRITE_SECONDS) as connection:
            await connection.execute(store.WRITE, [store.rows(buckets)])
    except (psycopg.Error, PoolTimeout, OSError) as error:
        measures.back(changed)
        log.warning("metrics could not be written, they are kept: %s", error)
