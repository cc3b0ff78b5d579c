"""What a disk that fails leaves behind: what is there is what the log holds, and nobody waits for ever."""

import asyncio
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from controlplane.embedded.small_objects.keeper import Keeper
from controlplane.embedded.small_objects.log import LogFailed
from tests.controlplane.embedded.small_objects.disk import Disk, put, run, settled_down


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
        await keeper.changed()
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
def test_what_the_log_holds_is_what_is_there_whatever_fails(seed: int) -> None:
    """Puts and removals of two keys with the disk behind them; commits fail, and files cannot be written."""

    async def work(keeper: Keeper, disk: Disk) -> None:
        random = Random(seed)
        for _ in range(20):
            disk.tries, disk.failing = 0, {number for number in range(1, 4) if random.random() < 0.4}
            disk.no_place = {key for key in "ab" if random.random() < 0.2}
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


def test_what_a_failed_sync_lost_is_written_again_before_the_next(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        for key in ("lost", "lost too", "overtaken", "removed"):
            await put(keeper, key)
        disk.fails = True
        with pytest.raises(OSError, match="broken"):
            await keeper.settle()
        disk.fails = False
        await put(keeper, "overtaken", b"new")
        keeper.forget("bucket", "removed")
        await keeper.settle()
        assert disk.synced == {"lost": b"x", "lost too": b"x", "overtaken": b"new"}
        assert disk.logged() == []
        await put(keeper, "after")
        await keeper.settle()
        assert (disk.synced["after"], disk.logged()) == (b"x", [])

    run(tmp_path, work)


def test_the_log_is_settled_every_now_and_then_also_after_a_sync_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.embedded.small_objects.keeper.SETTLE_SECONDS", 0.0)

    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.failing_syncs = {1}
        await put(keeper, "k")
        async with asyncio.timeout(30):
            while keeper.unsettled:
                await asyncio.sleep(0)
        assert (disk.synced, disk.logged()) == ({"k": b"x"}, [])

    run(tmp_path, work)


def test_a_put_whose_file_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    """Both in the log, so that it outlives a lost machine, and for the removal that comes then."""

    async def work(keeper: Keeper, disk: Disk) -> None:
        await put(keeper, "k", b"old")
        disk.no_place = {"k"}
        with pytest.raises(IsADirectoryError):
            await put(keeper, "k", b"new")
        assert (disk.files, disk.logged(), keeper.unsettled) == ({"k": b"old"}, [("k", b"old")], 1)
        keeper.forget("bucket", "k")
        await keeper.changed()
        assert (disk.logged(), keeper.unsettled) == ([], 0)

    run(tmp_path, work)


async def outcomes(*puts: "asyncio.Task[None]") -> list[type]:
    """What became of them; fails where one waits for ever."""
    async with asyncio.timeout(30):
        return [type(each) for each in await asyncio.gather(*puts, return_exceptions=True)]


def test_a_change_that_cannot_be_taken_back_is_told_and_does_not_end_the_log(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.fails = disk.undo_fails = True
        assert await outcomes(put(keeper, "a")) == [LogFailed]
        disk.fails = False
        await outcomes(put(keeper, "b"))  # which finds the change still open
        assert await outcomes(put(keeper, "c")) == [type(None)]
        assert disk.files.keys() == dict(disk.logged()).keys()
        assert "a" not in disk.files

    run(tmp_path, work)


def test_a_fault_that_nobody_thought_of_is_told_and_the_next_put_goes(tmp_path: Path) -> None:
    """While entering it, and while writing its files."""

    async def work(keeper: Keeper, disk: Disk) -> None:
        disk.broken = {"odd"}
        assert await outcomes(put(keeper, "no UTF-8 \ud800")) == [UnicodeEncodeError]
        assert await outcomes(put(keeper, "odd"), put(keeper, "beside")) == [ValueError, type(None)]
        assert await outcomes(put(keeper, "next")) == [type(None)]
        assert disk.logged() == [("beside", b"x"), ("next", b"x")]

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
