"""Puts that share a sync, in the order in which they came.

    coming ---> in the log, its commit under way ---> written as files: kept ---> settled: synced, and out of the log
                  |                    |                      |
                  |                    |                      v
                  |                    |         a later put that was written, or a removal, takes it out of the log
                  |                    v
                  |         removed meanwhile: kept, as far as anybody can tell, and never written
                  v
        the commit failed, or the files could not be written: refused, and what was there before is as it was

A sync that failed says so once: the kernel takes what it could not write for written. So the next one comes after all that
the log holds was written again.

One commit at a time: whatever comes while it runs gathers for the next. All but waiting for the disk is done on the event
loop, between any two of whose steps everything here holds; so nobody sees half of an object.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from controlplane.core.futures import end
from controlplane.embedded.small_objects.batch import Batch, Held, Place, Put, Waiting
from controlplane.embedded.small_objects.log import Entry, LogFailed, PutLog

SETTLE_SECONDS = 10.0
"""After how long files are synced, at the latest."""

SETTLE_OBJECTS = 8192
SETTLE_BYTES = 32 * 1024 * 1024
"""With how much in the log they are synced at once. A start writes as much again."""

log = logging.getLogger(__name__)


class Keeper:
    """Keeps objects: `write` writes an entry's files, `sync` has all files on disk; both raise OSError.

    For one loop; the log is empty to begin with.
    """

    def __init__(self, put_log: PutLog, write: Callable[[Entry], None], sync: Callable[[], None]) -> None:
        self._log = put_log
        self._write = write
        self._sync = sync
        self._last = self._written = 0
        self._held: dict[Place, Held] = {}
        self._coming: dict[Place, list[Put]] = {}
        """The puts of a key that are not written yet, as they came; without those that were removed."""
        self._bytes = 0
        self._batch = Batch()
        self._is_busy = self._is_closed = self._is_unsure = False
        self._beginning: asyncio.Handle | None = None
        self._settler: asyncio.Task[None] | None = None
        self._is_full = asyncio.Event()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="log")

    @property
    def unsettled(self) -> int:
        """How many objects that are written the log holds."""
        return len(self._held)

    def is_coming(self, bucket: str) -> bool:
        """Whether an object of the bucket is on its way."""
        return any(place[0] == bucket for place in self._coming)

    async def keep(self, bucket: str, key: str, body: bytes, about: bytes) -> None:
        """Returns once the object is there and will be. Raises OSError, or LogFailed: then all is as it was."""
        self._last += 1
        put = Put(Entry(self._last, bucket, key, body, about), asyncio.get_running_loop().create_future())
        self._coming.setdefault((bucket, key), []).append(put)
        self._batch.puts.append(put)
        self._go()
        try:
            await put.done
        except LogFailed:
            raise
        except Exception:
            await self.changed()  # nor may it come back
            raise

    def forget(self, bucket: str, key: str) -> None:
        """Something else has become of the key, and the log is to say no more of it; `changed` waits until it does not."""
        self._let_go((bucket, key))
        for put in self._coming.pop((bucket, key), ()):
            put.is_removed = True
            self._batch.gone.append(put.entry.number)

    def forget_bucket(self, bucket: str) -> None:
        """`forget` all of its keys."""
        for place in [place for place in (*self._held, *self._coming) if place[0] == bucket]:
            self.forget(*place)

    async def changed(self) -> None:
        """Returns once the log has forgotten what it was to forget. Raises LogFailed."""
        if self._batch.gone or self._is_busy:
            await self._next_commit()

    async def settle(self) -> None:
        """Have on disk all files that were written so far, and empty the log of them. Raises OSError, or LogFailed."""
        self._is_full.clear()
        self._write_again()
        written = self._written
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._sync)
        except OSError:
            self._is_unsure = True
            raise
        self._batch.settled = written
        await self._next_commit()
        for place in [place for place, held in self._held.items() if held.number <= written]:
            self._settled(place)

    def close(self) -> None:
        """Take no more, end the threads and close the log; what it holds is written again at the next start."""
        self._is_closed = True
        for running in (self._beginning, self._settler):
            if running is not None:
                running.cancel()
        self._threads.shutdown()
        self._log.undo()
        self._log.close()

    def _write_again(self) -> None:
        """Write what a sync that failed may have left out. Raises OSError, or LogFailed."""
        if self._is_unsure:
            for entry in self._log.entries():
                held = self._held.get((entry.bucket, entry.key))
                if held is not None and held.number == entry.number:
                    self._write(entry)
            self._is_unsure = False

    def _settled(self, place: Place) -> Held | None:
        """The log does not hold it any more; what it held."""
        held = self._held.pop(place, None)
        if held is not None:
            self._bytes -= held.size
        return held

    def _let_go(self, place: Place) -> None:
        """The log is to hold it no more, if it does."""
        held = self._settled(place)
        if held is not None:
            self._batch.gone.append(held.number)

    def _arrived(self, put: Put) -> None:
        """Whatever became of it, it is not on its way any more."""
        if not put.is_removed:
            self._coming[put.place].remove(put)
            if not self._coming[put.place]:
                del self._coming[put.place]

    async def _next_commit(self) -> None:
        done = asyncio.get_running_loop().create_future()
        self._batch.waiting.append(done)
        self._go()
        await done

    def _go(self) -> None:
        if not self._is_busy and not self._is_closed:
            self._is_busy = True
            self._beginning = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        batch, self._batch = self._batch, Batch()
        try:
            self._log.change((put.entry for put in batch.puts), batch.gone, batch.settled)
            committed = asyncio.get_running_loop().run_in_executor(self._threads, self._log.commit)
        except Exception as fault:  # noqa: BLE001 - told to all who wait, who would do so for ever
            self._failed(batch, fault)
            return
        committed.add_done_callback(lambda future: self._committed(batch, future))

    def _committed(self, batch: Batch, committed: Waiting) -> None:
        if committed.cancelled() or self._is_closed:
            return
        if (fault := committed.exception()) is not None:
            self._failed(batch, fault)
            return
        for put in batch.puts:
            end(put.done, self._write_one(put))
        for done in batch.waiting:
            end(done, None)
        self._ended()

    def _write_one(self, put: Put) -> Exception | None:
        """Write the files of an entry that is in the log, unless it was removed; the fault, if that failed.

        Only then does what was there before leave the log. One that a later put overtakes is written too: that may fail.
        """
        entry = put.entry
        self._written = entry.number
        self._arrived(put)
        if put.is_removed:
            return None
        try:
            self._write(entry)
        except Exception as fault:  # noqa: BLE001 - told to who waits, who would do so for ever
            self._batch.gone.append(entry.number)
            return fault
        self._let_go(put.place)
        self._held[put.place] = Held(entry.number, len(entry.body))
        self._bytes += len(entry.body)
        return None

    def _failed(self, batch: Batch, fault: BaseException) -> None:
        """Nothing of the batch is in the log: what it held before it holds still, and what was to leave it has to."""
        log.error("what was put could not be logged: %s", fault)
        try:
            self._log.undo()
        except LogFailed as another:  # which no change gets past, so that it ends here again
            log.error("nor could that be taken back: %s", another)
        self._batch.gone += batch.gone
        self._batch.settled = max(batch.settled, self._batch.settled)
        for put in batch.puts:
            self._arrived(put)
        for done in [*(put.done for put in batch.puts), *batch.waiting]:
            end(done, fault)
        self._is_busy = False
        if self._batch.puts or self._batch.waiting:
            self._go()

    def _ended(self) -> None:
        self._is_busy = False
        if self._batch:
            self._go()
        if self._held and self._settler is None:
            self._settler = asyncio.create_task(self._keep_settling())
        if len(self._held) >= SETTLE_OBJECTS or self._bytes >= SETTLE_BYTES:
            self._is_full.set()

    async def _keep_settling(self) -> None:
        """Settle every now and then until the log is empty."""
        try:
            while self._held:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SETTLE_SECONDS):
                        await self._is_full.wait()
                try:
                    await self.settle()
                except (OSError, LogFailed) as fault:
                    log.error("files could not be synced; they stay in the log: %s", fault)
        finally:
            self._settler = None
