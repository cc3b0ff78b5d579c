"""A bucket that was removed does not come back."""

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from nanio.errors import BucketNotEmpty, NoSuchBucket

from controlplane.embedded.small_objects.storage import Storage
from tests.controlplane.embedded.small_objects.bodies import BUCKET, body_of, read


def as_it_is(folder: Path, copied: Path) -> Path:
    """A copy of a folder in which somebody works: without what goes while it is made."""

    def copy(source: str, target: str) -> None:
        with suppress(FileNotFoundError):
            shutil.copy2(source, target)

    return shutil.copytree(folder, copied, copy_function=copy)


def test_a_bucket_that_went_takes_no_more_objects(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        await storage.put_object(BUCKET, "out/a", body_of(b"1"))
        storage.delete_object(BUCKET, "out/a")
        storage.delete_bucket(BUCKET)
        await storage.changed()
        with pytest.raises(NoSuchBucket):
            await storage.put_object(BUCKET, "out/b", body_of(b"2"))
        storage.close()

    asyncio.run(run())
    again = Storage(tmp_path)
    assert again.list_buckets() == []
    again.close()


def test_a_bucket_in_which_an_object_is_being_put_stays(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        coming = asyncio.create_task(storage.put_object(BUCKET, "a", body_of(b"1")))
        await asyncio.sleep(0)
        with pytest.raises(BucketNotEmpty):
            storage.delete_bucket(BUCKET)
        await coming
        assert await read(storage, "a") == b"1"
        storage.close()

    asyncio.run(run())


def test_an_object_that_was_prepared_does_not_come_back_with_its_bucket(tmp_path: Path) -> None:
    """Whenever the process is killed: a start makes both of what is in the log."""
    killed: list[Path] = []

    async def run() -> None:
        storage = Storage(tmp_path / "store")
        storage.create_bucket(BUCKET)
        storage.prepare(BUCKET, "a")
        storage.delete_bucket(BUCKET)
        keeping = asyncio.create_task(storage.keep(BUCKET, "a", b"1", {"content_type": "text/plain"}))
        while not keeping.done():
            await asyncio.sleep(0)
            killed.append(as_it_is(tmp_path / "store", tmp_path / f"killed-{len(killed)}"))
        with pytest.raises(NoSuchBucket):
            await keeping
        storage.close()

    asyncio.run(run())
    for folder in killed:
        again = Storage(folder)
        assert again.list_buckets() == []
        again.close()


def test_a_bucket_does_not_come_back_with_objects_that_somebody_removed_by_hand(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        await storage.put_object(BUCKET, "a", body_of(b"1"))
        (tmp_path / BUCKET / "a").unlink()
        storage.delete_bucket(BUCKET)
        await storage.changed()
        storage.close()

    asyncio.run(run())
    again = Storage(tmp_path)
    assert again.list_buckets() == []
    again.close()
