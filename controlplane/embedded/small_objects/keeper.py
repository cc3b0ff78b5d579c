"""Puts that share a sync, in the order in which they came.

    coming ---> in the log, its commit under way ---> written as files: kept ---> settled: synced, and out of the log
                  |                    |                      |
                  |                    |                      v
                  |                    |         a later put or a removal of the key takes it out of the log
                  |                    v
                  |         removed meanwhile: kept, as far as anybody can tell, and never written
                  v
        the commit failed, or the key has no place among files: refused

One commit at a time: whatever comes while it runs gathers for the next. All but waiting for the disk is done on the event
loop, between any two of whose steps everything here holds; so nobody sees half of an object.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from controlplane.embedded.small_objects.batch import Batch, Held, Put, Waiting
from controlplane.embedded.small_objects.log import Entry, LogFailed, PutLog

SETTLE_SECONDS = 10.0
"""After how long files are synced, at the latest."""

SETTLE_OBJECTS = 8192
SETTLE_BYTES = 32 * 1024 * 1024
"""With how much in the log they are synced at once. A start writes as much again."""

log = logging.getLogger(__name__)

Place = tuple[str, str]


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
        self._removed: dict[Place, int] = {}
        """Up to which number the puts of a key that are not written yet were removed meanwhile."""
        self._bytes = 0
        self._batch = Batch()
        self._is_busy = self._is_closed = False
        self._beginning: asyncio.Handle | None = None
        self._settler: asyncio.Task[None] | None = None
        self._is_full = asyncio.Event()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="log")

    @property
    def unsettled(self) -> int:
        """How many objects the log holds."""
        return len(self._held)

    async def keep(self, bucket: str, key: str, body: bytes, about: bytes) -> None:
        """Returns once the object is there and will be. Raises OSError, or LogFailed: then it is not."""
        self._last += 1
        entry, place = Entry(self._last, bucket, key, body, about), (bucket, key)
        before = self._let_go(place)
        if before is not None:
            self._batch.gone.append(before.number)
        self._hold(place, Held(entry.number, len(body)))
        done = asyncio.get_running_loop().create_future()
        self._batch.puts.append(Put(entry, before, done))
        self._go()
        try:
            await done
        except OSError:
            await self.changed()  # nor may it come back
            raise

    def forget(self, bucket: str, key: str) -> None:
        """Something else has become of the key, and the log is to say no more of it; `changed` waits until it does not."""
        held = self._let_go((bucket, key))
        if held is not None:
            self._batch.gone.append(held.number)
            if held.number > self._written:
                self._removed[bucket, key] = held.number

    async def changed(self) -> None:
        """Returns once the log has forgotten what it was to forget. Raises LogFailed."""
        if self._batch.gone or self._is_busy:
            await self._next_commit()

    async def settle(self) -> None:
        """Have on disk all files that were written so far, and empty the log of them. Raises OSError, or LogFailed."""
        self._is_full.clear()
        written = self._written
        await asyncio.get_running_loop().run_in_executor(self._threads, self._sync)
        self._batch.settled = written
        await self._next_commit()
        for place in [place for place, held in self._held.items() if held.number <= written]:
            self._let_go(place)

    def close(self) -> None:
        """Take no more, end the threads and close the log; what it holds is written again at the next start."""
        self._is_closed = True
        for running in (self._beginning, self._settler):
            if running is not None:
                running.cancel()
        self._threads.shutdown()
        self._log.undo()
        self._log.close()

    def _hold(self, place: Place, held: Held) -> None:
        self._held[place] = held
        self._bytes += held.size

    def _let_go(self, place: Place) -> Held | None:
        held = self._held.pop(place, None)
        if held is not None:
            self._bytes -= held.size
        return held

    def _holds(self, entry: Entry) -> bool:
        """Whether nothing has overtaken it."""
        held = self._held.get((entry.bucket, entry.key))
        return held is not None and held.number == entry.number

    def _is_removed(self, entry: Entry) -> bool:
        """Whether it was removed on its way, which ends here."""
        place = entry.bucket, entry.key
        number = self._removed.get(place, 0)
        if entry.number == number:
            del self._removed[place]
        return entry.number <= number

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
        except LogFailed as fault:
            self._failed(batch, fault)
            return
        committed = asyncio.get_running_loop().run_in_executor(self._threads, self._log.commit)
        committed.add_done_callback(lambda future: self._committed(batch, future))

    def _committed(self, batch: Batch, committed: Waiting) -> None:
        if committed.cancelled() or self._is_closed:
            return
        if (fault := committed.exception()) is not None:
            self._failed(batch, fault)
            return
        for put in batch.puts:
            _end(put.done, self._write_one(put.entry))
        for done in batch.waiting:
            _end(done, None)
        self._ended()

    def _write_one(self, entry: Entry) -> OSError | None:
        """Write the files of an entry that is in the log, unless it was removed; the fault, if that failed.

        One that a later put overtakes is written too: that put may fail yet.
        """
        self._written = entry.number
        if self._is_removed(entry):
            return None
        try:
            self._write(entry)
        except OSError as fault:
            self._batch.gone.append(entry.number)
            if self._holds(entry):
                self._let_go((entry.bucket, entry.key))
            return fault
        return None

    def _failed(self, batch: Batch, fault: BaseException) -> None:
        """Nothing of the batch is in the log: what it held before it holds still, and what was to leave it has to."""
        log.error("what was put could not be logged: %s", fault)
        self._log.undo()
        stays = [self._take_back(put) for put in reversed(batch.puts)]
        self._batch.gone += [number for number in batch.gone if number not in stays]
        self._batch.settled = max(batch.settled, self._batch.settled)
        for done in [*(put.done for put in batch.puts), *batch.waiting]:
            _end(done, fault)
        self._is_busy = False
        if self._batch.puts or self._batch.waiting:
            self._go()

    def _take_back(self, put: Put) -> int:
        """As if it had never been put; the number of what is there in its stead and is to stay in the log, 0 for none."""
        entry = put.entry
        self._is_removed(entry)
        for later in self._batch.puts:
            if later.before is not None and later.before.number == entry.number:
                later.before = put.before
                return 0
        if not self._holds(entry):
            return 0
        self._let_go((entry.bucket, entry.key))
        if put.before is None:
            return 0
        self._hold((entry.bucket, entry.key), put.before)
        return put.before.number

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
        while self._held:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_SECONDS):
                    await self._is_full.wait()
            try:
                await self.settle()
            except (OSError, LogFailed) as fault:
                log.error("files could not be synced; they stay in the log: %s", fault)
        self._settler = None


def _end(done: Waiting, fault: BaseException | None) -> None:
    if done.done():
        return
    if fault is None:
        done.set_result(None)
    else:
        done.set_exception(fault)
