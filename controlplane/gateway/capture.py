"""Data capture: a share of the calls is kept in the object store, without any call noticing.

    call answered well -> recorded while it is delivered -> waits in memory -> every few seconds: one object for each hour
        and variant -> written | three times not: dropped, and said in the log

All that recordings hold, under way and waiting, is within HELD_LIMIT_BYTES; what does not fit is not kept. A side of more
than SIDE_LIMIT_BYTES is left out of its record. Encoding and writing happen in a thread. A gateway that is killed loses
what waits, some seconds' worth; one that is stopped writes it first.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.gateway.capture_record import Record, Side
from controlplane.gateway.capture_store import CaptureStore
from controlplane.routing.table import Route, VariantRoute

HELD_LIMIT_BYTES = 64 * 1024 * 1024
SIDE_LIMIT_BYTES = 8 * 1024 * 1024
RECORD_BYTES = 1024
"""What a record costs beside its two sides."""

TRIES = 3
FAREWELL_SECONDS = 3.0
"""How long a gateway that is stopped goes on writing."""

log = logging.getLogger(__name__)


@dataclass
class Capturer:
    """What this gateway records, and what it has recorded and not written yet."""

    store: CaptureStore
    period_seconds: float
    draw: random.Random = field(default_factory=random.Random)
    held_bytes: int = 0
    _waiting: list["_Waiting"] = field(default_factory=list)
    _dropped: int = 0

    def begin(self, route: Route, variant: VariantRoute, params: Mapping[str, Any]) -> "Recording | None":
        """A recording of the call that the variant has just answered well; None where it is not to be kept."""
        capture = variant.capture
        if capture is None or self.draw.random() * 100 >= capture.percentage:
            return None
        body = params["Body"] if capture.takes_input and len(params["Body"]) <= SIDE_LIMIT_BYTES else None
        cost = RECORD_BYTES + len(body or b"")
        if not self.take(cost):
            return None
        record = Record(
            route.endpoint_name,
            variant.name,
            capture,
            clock.now(),
            str(new_uuid()),
            params.get("InferenceId", ""),
            params.get("CustomAttributes", ""),
            None if body is None else Side(params.get("ContentType", ""), body),
            None,
        )
        return Recording(self, record, cost)

    def take(self, size: int) -> bool:
        """Whether there is room for `size` more bytes, which then are held; if not, a record is lost."""
        if self.held_bytes + size > HELD_LIMIT_BYTES:
            self._dropped += 1
            return False
        self.held_bytes += size
        return True

    def release(self, size: int) -> None:
        """Hold `size` bytes less."""
        self.held_bytes -= size

    def keep(self, record: Record, cost: int) -> None:
        """Let a complete record wait to be written."""
        self._waiting.append(_Waiting(record, cost))

    async def run(self) -> None:
        """Write what waits, every few seconds, until cancelled."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="capture")
        try:
            while True:
                await asyncio.sleep(self.period_seconds)
                await self.write(thread)
        finally:
            thread.shutdown(wait=False)

    async def leave(self) -> None:
        """Write what waits for the last time."""
        if not self._waiting:
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="capture")
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self.write(thread)
        except TimeoutError:
            log.warning("data capture: %d records could not be written in time and are lost", len(self._waiting))
        finally:
            thread.shutdown(wait=False)

    async def write(self, thread: ThreadPoolExecutor) -> None:
        """Write what waits; what cannot be written waits for the next time, TRIES times in all."""
        if self._dropped:
            log.warning("data capture: %d records were not kept, memory is full of others", self._dropped)
            self._dropped = 0
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            left, why = await asyncio.get_running_loop().run_in_executor(
                thread, self.store.write, [each.record for each in batch]
            )
        except BaseException:
            self._waiting = batch + self._waiting  # cancelled in the midst: written twice is better than never
            raise
        unwritten = {record.event_id for record in left}
        for each in batch:
            if each.record.event_id not in unwritten or each.tries + 1 >= TRIES:
                self.release(each.cost)
        again = [
            replace(each, tries=each.tries + 1)
            for each in batch
            if each.record.event_id in unwritten and each.tries + 1 < TRIES
        ]
        self._waiting = again + self._waiting
        if left:
            log.warning("data capture: %d records not written, %d of them lost: %s", len(left), len(left) - len(again), why)


@dataclass(frozen=True)
class _Waiting:
    record: Record
    cost: int
    tries: int = 0


class Recording:
    """One call while it is being delivered; close it in any case."""

    def __init__(self, capturer: Capturer, record: Record, cost: int) -> None:
        self._capturer = capturer
        self._record = record
        self._cost = cost
        self._parts: list[bytes] | None = [] if record.capture.takes_output else None
        self._size = 0
        self._is_over = False

    async def tap(self, pieces: AsyncIterator[bytes], content_type: str) -> AsyncIterator[bytes]:
        """The pieces of the answer as they are; once the last one has passed, the record is complete."""
        async for piece in pieces:
            self._add(piece)
            yield piece
        self._finish(content_type)

    def close(self) -> None:
        """Give the recording up, unless it is complete."""
        if not self._is_over:
            self._is_over = True
            self._capturer.release(self._cost + self._size)

    def _add(self, piece: bytes) -> None:
        if self._parts is None or self._is_over:
            return
        if not self._capturer.take(len(piece)):
            self.close()
            return
        self._size += len(piece)
        self._parts.append(piece)
        if self._size > SIDE_LIMIT_BYTES:
            self._capturer.release(self._size)
            self._size, self._parts = 0, None

    def _finish(self, content_type: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        output = None if self._parts is None else Side(content_type, b"".join(self._parts))
        self._capturer.keep(replace(self._record, output=output), self._cost + self._size)
