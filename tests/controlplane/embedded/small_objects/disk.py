"""A keeper on a disk whose pace and whose faults a test sets."""

import asyncio
import errno
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from controlplane.embedded.small_objects.keeper import Keeper
from controlplane.embedded.small_objects.log import Entry, LogFailed, PutLog


class Disk(PutLog):
    """A log whose disk can be slow or fail, and the files written after it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.commits = self.syncs = self.sync_tries = 0
        self.failing_syncs: set[int] = set()
        self.ready = threading.Event()
        self.ready.set()
        self.tries = 0
        self.fails = False
        self.failing: set[int] = set()
        """The commits that fail, counted from 1."""
        self.undo_fails = False
        self.no_place: set[str] = set()
        self.broken: set[str] = set()
        """Keys on which writing fails as it should not."""
        self.files: dict[str, bytes] = {}
        self.dirty: dict[str, bytes] = {}
        """What a sync has yet to write."""
        self.synced: dict[str, bytes] = {}

    def commit(self) -> None:
        self.ready.wait(30)
        self.tries += 1
        if self.fails or self.tries in self.failing:
            raise LogFailed("database or disk is full")
        self.commits += 1
        super().commit()

    def undo(self) -> None:
        if self.undo_fails:
            self.undo_fails = False
            raise LogFailed("disk I/O error")
        super().undo()

    def write(self, entry: Entry) -> None:
        if entry.key in self.no_place:
            raise IsADirectoryError(errno.EISDIR, "is a folder", entry.key)
        if entry.key in self.broken:
            raise ValueError(entry.key)
        self.files[entry.key] = self.dirty[entry.key] = entry.body

    def sync(self) -> None:
        """As Linux does: what could not be written is dropped, and said once."""
        dirty, self.dirty = self.dirty, {}
        self.sync_tries += 1
        if self.fails or self.sync_tries in self.failing_syncs:
            raise OSError(errno.EIO, "broken")
        self.syncs += 1
        self.synced |= dirty

    def logged(self) -> list[tuple[str, bytes]]:
        return [(entry.key, entry.body) for entry in self.entries()]


def run(tmp_path: Path, work: Callable[[Keeper, Disk], Awaitable[None]]) -> None:
    async def inside() -> None:
        disk = Disk(tmp_path / "log")
        keeper = Keeper(disk, disk.write, disk.sync)
        try:
            await work(keeper, disk)
        finally:
            disk.ready.set()
            keeper.close()

    asyncio.run(inside())


def put(keeper: Keeper, key: str, body: bytes = b"x") -> "asyncio.Task[None]":
    return asyncio.create_task(keeper.keep("bucket", key, body, b"{}"))


async def settled_down(rounds: int = 5) -> None:
    """Let everything run that can."""
    for _ in range(rounds):
        await asyncio.sleep(0)
