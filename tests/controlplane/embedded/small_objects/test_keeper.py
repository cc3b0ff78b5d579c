"""Puts that share a sync: when they are answered, what overtakes what, and what a disk that fails leaves behind."""

import asyncio
import errno
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from controlplane.embedded.small_objects.keeper import Keeper
from controlplane.embedded.small_objects.log import Entry, LogFailed, PutLog


class Disk(PutLog):
    """A log whose disk can be slow or fail, and the files written after it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.commits = self.syncs = 0
        self.ready = threading.Event()
        self.ready.set()
        self.tries = 0
        self.fails = False
        self.failing: set[int] = set()
        """The commits that fail, counted from 1."""
        self.no_place: set[str] = set()
        self.files: dict[str, bytes] = {}

    def commit(self) -> None:
        self.ready.wait(30)
        self.tries += 1
        if self.fails or self.tries in self.failing:
            raise LogFailed("database or disk is full")
        self.commits += 1
        super().commit()

    def write(self, entry: Entry) -> None:
        if entry.key in self.no_place:
            raise IsADirectoryError(errno.EISDIR, "is a folder", entry.key)
        self.files[entry.key] = entry.body

    def sync(self) -> None:
        if self.fails:
            raise OSError(errno.EIO, "broken")
        self.syncs += 1

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


def test_nothing_is_answered_or_seen_before_it_is_on_disk(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.ready.clear()
        one = put(keeper, "a")
        await settled_down()
        assert not one.done()
        assert disk.files == {}
        disk.ready.set()
        await one
        assert disk.files == {"a": b"x"}
        assert disk.logged() == [("a", b"x")]

    run(tmp_path, work)


def test_what_comes_while_the_disk_is_busy_shares_the_next_sync(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.ready.clear()
        first = put(keeper, "first")
        await settled_down()
        others = [put(keeper, f"k{number}") for number in range(50)]
        await settled_down()
        disk.ready.set()
        await asyncio.gather(first, *others)
        assert disk.commits == 2
        assert len(disk.files) == len(disk.logged()) == 51

    run(tmp_path, work)


def test_the_last_of_two_puts_of_a_key_is_what_is_there_and_what_would_come_back(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        await asyncio.gather(put(keeper, "k", b"1"), put(keeper, "k", b"2"))
        assert (disk.files, disk.logged()) == ({"k": b"2"}, [("k", b"2")])
        await put(keeper, "k", b"3")
        assert (disk.files, disk.logged()) == ({"k": b"3"}, [("k", b"3")])
        assert keeper.unsettled == 1

    run(tmp_path, work)


def test_a_key_that_was_removed_while_it_was_put_stays_removed(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.ready.clear()
        one = put(keeper, "k")
        await settled_down()
        keeper.forget("bucket", "k")
        disk.ready.set()
        await asyncio.gather(one, keeper.changed())
        assert (disk.files, disk.logged(), keeper.unsettled) == ({}, [], 0)

    run(tmp_path, work)


def test_what_was_settled_leaves_the_log_and_what_came_meanwhile_stays(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        await asyncio.gather(put(keeper, "a"), put(keeper, "b"))
        disk.ready.clear()
        late = put(keeper, "late")
        await settled_down()
        settling = asyncio.create_task(keeper.settle())
        await settled_down()
        disk.ready.set()
        await asyncio.gather(late, settling)
        assert disk.syncs == 1
        assert (disk.logged(), keeper.unsettled) == ([("late", b"x")], 1)
        await keeper.settle()
        assert (disk.logged(), keeper.unsettled) == ([], 0)

    run(tmp_path, work)


def test_a_log_that_cannot_be_written_refuses_the_put_and_keeps_what_it_held(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        await put(keeper, "k", b"old")
        disk.fails = True
        with pytest.raises(LogFailed):
            await put(keeper, "k", b"new")
        with pytest.raises(LogFailed):
            await put(keeper, "other")
        assert (disk.files, disk.logged()) == ({"k": b"old"}, [("k", b"old")])
        disk.fails = False
        await put(keeper, "k", b"newer")
        assert (disk.files, disk.logged()) == ({"k": b"newer"}, [("k", b"newer")])

    run(tmp_path, work)


def test_what_a_put_overtook_is_there_where_that_put_fails(tmp_path: Path) -> None:
    """One under way, and two that gather behind it and fail."""

    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.failing = {2}
        disk.ready.clear()
        puts = []
        for body in (b"kept", b"lost", b"lost too"):
            puts.append(put(keeper, "k", body))
            await settled_down()
        disk.ready.set()
        results = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), LogFailed, LogFailed]
        assert (disk.files, disk.logged(), keeper.unsettled) == ({"k": b"kept"}, [("k", b"kept")], 1)
        keeper.forget("bucket", "k")
        await keeper.changed()
        assert (disk.logged(), keeper.unsettled) == ([], 0)

    run(tmp_path, work)


@hypothesis_settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_the_log_holds_is_what_is_there_whichever_commits_fail(seed: int) -> None:
    """Puts and removals of two keys with the disk behind them, its commits failing one way after another."""

    async def work(keeper: Keeper, disk: Disk) -> None:
        random = Random(seed)
        for _ in range(20):
            disk.tries, disk.failing = 0, {number for number in range(1, 4) if random.random() < 0.4}
            asked = []
            for _ in range(random.randint(1, 6)):
                key = random.choice("ab")
                if random.random() < 0.25:
                    keeper.forget("bucket", key)
                    disk.files.pop(key, None)
                else:
                    asked.append(put(keeper, key, random.randbytes(3)))
                await settled_down(random.randint(0, 2))
            await asyncio.gather(*asked, return_exceptions=True)
            disk.failing = set()
            await keeper.changed()
            assert dict(disk.logged()) == disk.files
            assert keeper.unsettled == len(disk.logged()) == len(disk.files)

    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), work)


def test_what_was_to_be_forgotten_when_the_log_failed_is_forgotten_later(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        await put(keeper, "k")
        disk.fails = True
        keeper.forget("bucket", "k")
        with pytest.raises(LogFailed):
            await keeper.changed()
        assert disk.logged() == [("k", b"x")]
        disk.fails = False
        await keeper.changed()
        assert disk.logged() == []

    run(tmp_path, work)


def test_files_that_could_not_be_synced_stay_in_the_log(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        await put(keeper, "k")
        disk.fails = True
        with pytest.raises(OSError, match="broken"):
            await keeper.settle()
        assert disk.logged() == [("k", b"x")]

    run(tmp_path, work)


def test_a_key_without_a_place_is_refused_alone_and_leaves_the_log(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.no_place = {"folder"}
        refused, good = await asyncio.gather(put(keeper, "folder"), put(keeper, "good"), return_exceptions=True)
        assert isinstance(refused, IsADirectoryError)
        assert good is None
        await keeper.changed()
        assert disk.logged() == [("good", b"x")]

    run(tmp_path, work)


def test_a_full_log_is_settled_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.embedded.small_objects.keeper.SETTLE_OBJECTS", 10)

    async def work(keeper: Keeper, disk: Disk) -> None:
        await asyncio.gather(*(put(keeper, f"k{number}") for number in range(10)))
        async with asyncio.timeout(30):
            while keeper.unsettled:
                await asyncio.sleep(0)
        assert (disk.syncs, disk.logged()) == (1, [])

    run(tmp_path, work)


def test_a_caller_that_went_away_changes_nothing(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.ready.clear()
        one = put(keeper, "k")
        await settled_down()
        one.cancel()
        disk.ready.set()
        await put(keeper, "after")
        assert disk.files == {"k": b"x", "after": b"x"}

    run(tmp_path, work)
