"""Puts that share a sync: when they are answered, and what overtakes what."""

import asyncio
from pathlib import Path

import pytest

from controlplane.embedded.small_objects.keeper import Keeper
from tests.controlplane.embedded.small_objects.disk import Disk, put, run, settled_down


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
        assert (disk.files, disk.logged()[-1]) == ({"k": b"2"}, ("k", b"2"))
        await put(keeper, "k", b"3")
        assert (disk.files, disk.logged()[-1]) == ({"k": b"3"}, ("k", b"3"))
        await keeper.changed()
        assert disk.logged() == [("k", b"3")]
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


def test_a_removal_takes_out_both_what_was_there_and_what_is_coming(tmp_path: Path) -> None:
    async def work(keeper: Keeper, disk: Disk) -> None:
        await put(keeper, "k", b"old")
        disk.ready.clear()
        one = put(keeper, "k", b"new")
        await settled_down()
        keeper.forget("bucket", "k")
        disk.ready.set()
        await asyncio.gather(one, keeper.changed())
        assert (disk.files, disk.logged(), keeper.unsettled) == ({"k": b"old"}, [], 0)

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
