"""Counting calls: in memory for each variant and ten seconds, written every second.

    a call ends --> its tally (dictionary look-ups, no lock: one event loop) --> every second: the tallies that changed

A tally is written whole, under the name of this run of the gateway, so that writing it again changes nothing and several
gateways, or one that was restarted, add up. While the database is away tallies are kept, for a quarter of an hour. A
gateway that is killed loses what it has counted since its last write.

What is counted, by EndpointName and VariantName, and once more by the configuration's name (contract, data plane 5.2 and
control plane 11.1): each call is an Invocation, 1/instances of InvocationsPerInstance, and 0 or 1 of each kind of error;
ModelLatency ends with the first part of the model's answer (256 KiB; of a stream, its first piece), OverheadLatency is the
rest of the call (of a stream, until that piece goes out). A model that gave no answer, or no instance that could be asked,
is a 5XX error. Of asynchronous invocations the workers count each attempt that reached the model: its errors and
ModelLatency (contract, control plane 8.6).
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.gateway.tally import Tally, together
from controlplane.metrics import store
from controlplane.metrics.series import BUCKET_SECONDS, OWN_NAMESPACE, MetricSetKey, bucket_start
from controlplane.routing.table import Route, VariantRoute

PERIOD_SECONDS = 1.0
WRITE_SECONDS = 2.0
SLICE = 5
MOST_BUCKETS = 90
"""Buckets that are kept while they cannot be written."""

logger = logging.getLogger(__name__)

_Variant = tuple[str, str, str]
"""Account, endpoint, variant."""

Place = tuple[int, _Variant]
"""A bucket's start, in seconds since 1970, and a variant in it."""


Marks = list[tuple[Tally, int]]
"""Tallies, and how many of their calls are written."""

_Bucket = dict[_Variant, dict[str, Tally]]


@dataclass
class Call:
    """What is known of one call: when it began, where it went, how long the model took, and how it failed, if it did.

    `status` is that of the model's answer, 0 where it gave none. `is_async` marks an attempt of an asynchronous
    invocation, for which less is counted.
    """

    started: float
    route: Route | None = None
    variant: VariantRoute | None = None
    is_async: bool = False
    asked: float | None = None
    model_seconds: float | None = None
    streams_since: float | None = None
    has_failed: bool = False
    is_model_error: bool = False
    status: int = 0

    def ask(self) -> None:
        """The model is asked now."""
        self.asked = clock.monotonic()

    def answered(self, *, is_stream: bool = False) -> None:
        """The model has answered, or its time is over; or the first piece of its stream is there."""
        now = clock.monotonic()
        if self.asked is not None:
            self.model_seconds = now - self.asked
        if is_stream:
            self.streams_since = now

    def fail(self, status: int = 0, *, is_model_error: bool = True) -> None:
        """The call has failed, by the model's own answer or lack of one, or else on the way to it."""
        self.has_failed, self.is_model_error, self.status = True, is_model_error, status


@dataclass
class Counts:
    """The tallies of this run of a gateway or a dispatcher: bucket start -> variant -> configuration's name -> tally."""

    role: str = "gateway"
    _buckets: dict[int, _Bucket] = field(default_factory=dict)
    _current: _Bucket = field(default_factory=dict)
    _current_until: float = -inf

    def __post_init__(self) -> None:
        self.source = f"{self.role}:{new_uuid().hex}"

    def add(self, call: Call) -> None:
        """Count a call that has ended; one for which no variant was chosen is nobody's."""
        route, variant = call.route, call.variant
        if route is None or variant is None:
            return
        now = clock.monotonic()
        tally = self._tally((route.account_id, route.endpoint_name, variant.name), variant.config_name, now)
        tally.add(variant, is_async=call.is_async)
        if call.has_failed:
            tally.fail(call.status, is_model_error=call.is_model_error)
        if call.model_seconds is not None:
            overhead = (call.streams_since or now) - call.started - call.model_seconds
            tally.model_latency.add(call.model_seconds * 1e6)
            tally.overhead.add(overhead * 1e6 if overhead > 0 else 0.0)

    def changed(self) -> list[Place]:
        """Where something was counted that is not written yet, the oldest first."""
        return [
            (start, variant)
            for start, bucket in sorted(self._buckets.items())
            for variant, tallies in bucket.items()
            if any(tally.is_changed for tally in tallies.values())
        ]

    def documents(self, places: Iterable[Place]) -> tuple[list[store.Bucket], Marks]:
        """What to write for these places, and what to tell `wrote` once it is written."""
        buckets: list[store.Bucket] = []
        marks: Marks = []
        for start, variant in places:
            tallies = self._buckets.get(start, {}).get(variant, {})
            metrics = {config: tally.metrics() for config, tally in tallies.items()}
            marks += [(tally, tally.calls) for tally in tallies.values()]
            buckets += [
                store.Bucket(_key(variant, config), start, self.source, found)
                for config, found in metrics.items()
                if config
            ]
            if metrics:
                buckets.append(store.Bucket(_key(variant, ""), start, self.source, together([*metrics.values()])))
        return buckets, marks

    def wrote(self, marks: Marks) -> None:
        """Remember what is written, and forget the buckets that are over and written."""
        for tally, calls in marks:
            tally.written = calls
        open_from = clock.now().timestamp() - 2 * BUCKET_SECONDS
        waiting = {start for start, _ in self.changed()}
        self._buckets = {
            start: bucket
            for start, bucket in self._buckets.items()
            if start > open_from or start in waiting or bucket is self._current
        }

    def _tally(self, variant: _Variant, config: str, now: float) -> Tally:
        """The tally in the bucket of this moment, of which the wall clock is asked once a bucket."""
        if now >= self._current_until:
            seconds = clock.now().timestamp()
            start = bucket_start(seconds)
            self._current = self._buckets.setdefault(start, {})
            self._current_until = now + start + BUCKET_SECONDS - seconds
            self._forget_oldest()
        tallies = self._current.get(variant)
        if tallies is None:
            tallies = self._current[variant] = {}
        tally = tallies.get(config)
        if tally is None:
            tally = tallies[config] = Tally()
        return tally

    def _forget_oldest(self) -> None:
        while len(self._buckets) > MOST_BUCKETS:
            del self._buckets[min(self._buckets)]
            logger.warning("metrics of ten seconds could not be written for too long and are lost")


def _key(variant: _Variant, config: str) -> MetricSetKey:
    account, endpoint, name = variant
    of_config = {"EndpointConfigName": config} if config else {}
    return MetricSetKey(account, OWN_NAMESPACE, {"EndpointName": endpoint, "VariantName": name, **of_config})


async def report(counts: Counts, pool: AsyncConnectionPool) -> None:
    """Write what has changed, every second, until cancelled."""
    while True:
        await write(counts, pool)
        await asyncio.sleep(PERIOD_SECONDS)


async def write(counts: Counts, pool: AsyncConnectionPool) -> None:
    """Write what has changed; with the database away it is kept for the next time.

    In slices: writing a document down takes some 0.1 ms, during which no call moves.
    """
    places = counts.changed()
    for first in range(0, len(places), SLICE):
        buckets, marks = counts.documents(places[first : first + SLICE])
        try:
            async with pool.connection(timeout=WRITE_SECONDS) as connection:
                await connection.execute(store.WRITE, [store.rows(buckets)])
        except (psycopg.Error, PoolTimeout, OSError) as error:
            logger.warning("metrics could not be written, they are kept: %s", error)
            return
        counts.wrote(marks)
