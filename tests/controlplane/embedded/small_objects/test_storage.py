"""What is kept, over a killed process and over a lost machine; and that nanio finds in it what it would have written."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from nanio.errors import InvalidObjectName, S3Error
from nanio.storage.filesystem import FilesystemStorage

from controlplane.embedded.small_objects.log import LogFailed
from controlplane.embedded.small_objects.storage import SMALL_BYTES, Storage
from tests.controlplane.embedded.small_objects.bodies import BUCKET, body_of, read
from tests.fakes.clock import FakeClock

KEYS = st.sampled_from(["a", "out/a", "out/b", "out/deep/c"])
SIZES = st.sampled_from([0, 3, SMALL_BYTES, SMALL_BYTES + 1])
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, SIZES),
    st.tuples(st.just("remove"), KEYS, st.just(0)),
    st.tuples(st.just("copy"), KEYS, st.just(0)),
    st.tuples(st.just("settle"), st.just(""), st.just(0)),
)


class World:
    """A storage, what it was told, and what of its folder is on disk for sure."""

    def __init__(self, folder: Path) -> None:
        self.root, self.safe = folder / "store", folder / "safe"
        self.root.mkdir()
        self.storage = Storage(self.root)
        self.storage.create_bucket(BUCKET)
        self.objects: dict[str, bytes] = {}
        self.unsafe: set[str] = set()
        """Keys of which nanio wrote or removed a file since the last sync: it syncs no folder."""
        self.keep_safe()

    def keep_safe(self) -> None:
        """What a sync of everything leaves on disk."""
        shutil.rmtree(self.safe, ignore_errors=True)
        shutil.copytree(self.root, self.safe)
        self.unsafe.clear()

    async def step(self, number: int, action: str, key: str, size: int) -> None:
        if action == "put":
            data = bytes([number]) * size
            await self.storage.put_object(BUCKET, key, body_of(data))
            self.objects[key] = data
            (self.unsafe.add if size > SMALL_BYTES else self.unsafe.discard)(key)
        elif action == "remove":
            self.storage.delete_object(BUCKET, key)
            self.objects.pop(key, None)
            self.unsafe.add(key)
        elif action == "copy" and key in self.objects:
            await self.storage.copy_object(BUCKET, key, BUCKET, "copied")
            self.objects["copied"] = self.objects[key]
            self.unsafe.add("copied")
        elif action == "settle":
            await self.storage.settle()
            self.keep_safe()
        await self.storage.changed()

    async def check(self, root: Path, keys: set[str]) -> None:
        """A storage that starts over this folder has what it was told of these keys."""
        again = Storage(root)
        try:
            found = {key: await read(again, key) for key in keys}
            assert found == {key: self.objects.get(key) for key in keys}
        finally:
            again.close()


@hypothesis_settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, max_size=12))
def test_whatever_was_answered_outlives_a_killed_process_and_a_lost_machine(steps: list[tuple[str, str, int]]) -> None:
    async def run(folder: Path) -> None:
        world = World(folder)
        try:
            for number, (action, key, size) in enumerate(steps):
                await world.step(number, action, key, size)
            keys = {"a", "out/a", "out/b", "out/deep/c", "copied"}
            killed = folder / "killed"
            shutil.copytree(world.root, killed)
            await world.check(killed, keys)
            for log in (world.root / ".nanio").glob("small.log*"):  # of all else, only what was synced is left
                shutil.copy(log, world.safe / ".nanio" / log.name)
            await world.check(world.safe, keys - world.unsafe)
        finally:
            world.storage.close()

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(run(Path(name)))


def test_nanio_reads_what_it_would_have_written(tmp_path: Path, fake_clock: FakeClock) -> None:
    """Also without the log: a data directory goes back and forth between the two."""

    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        metadata = {"x-amz-meta-headrace-invocation": "me", "x-amz-meta-\u00e9": "\u00e4"}
        info = await storage.put_object(
            BUCKET, "out/a", body_of(b"text"), content_type="text/plain", user_metadata=metadata, cache_control="no-store"
        )
        storage.close()
        found = FilesystemStorage(tmp_path).head_object(BUCKET, "out/a")
        assert found == info
        assert (found.etag, found.size) == ('"1cb251ec0d568de6a929b520c4aed8d1"', 4)
        assert (found.content_type, found.user_metadata, found.cache_control) == ("text/plain", metadata, "no-store")
        assert found.last_modified == fake_clock.now()

    asyncio.run(run())


WAYS_OUT = ["..\\x", "a\\..\\b", "a\\..\\b/c", "a/..\\b"]


@pytest.mark.parametrize("key", WAYS_OUT)
def test_a_key_with_a_way_out_between_backslashes_is_refused_by_all(tmp_path: Path, key: str) -> None:
    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        for size in (1, SMALL_BYTES + 1):
            with pytest.raises(InvalidObjectName):
                await storage.put_object(BUCKET, key, body_of(b"x" * size))
        for ask in (storage.prepare, storage.head_object, storage.delete_object):
            with pytest.raises(InvalidObjectName):
                ask(BUCKET, key)
        with pytest.raises(InvalidObjectName):
            await storage.get_object(BUCKET, key)
        for pair in ((key, "b"), ("a", key)):
            with pytest.raises(InvalidObjectName):
                await storage.copy_object(BUCKET, pair[0], BUCKET, pair[1])
        assert storage.list_objects(BUCKET).contents == []
        storage.close()

    asyncio.run(run())


@hypothesis_settings(max_examples=100, deadline=None)
@given(key=st.one_of(st.text(max_size=12), st.text("a./\\", max_size=8)))
def test_any_key_is_kept_and_listed_or_refused_in_words(key: str) -> None:
    async def run(folder: Path) -> None:
        storage = Storage(folder)
        storage.create_bucket(BUCKET)
        try:
            await storage.put_object(BUCKET, key, body_of(b"1"))
        except (S3Error, OSError):
            assert storage.list_objects(BUCKET).contents == []
        else:
            assert await read(storage, key) == b"1"
        storage.close()

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(run(Path(name)))


def test_a_folder_that_went_with_its_last_object_is_made_again(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        for data in (b"1", b"2"):
            await storage.put_object(BUCKET, "out/deep/a", body_of(data))
            assert await read(storage, "out/deep/a") == data
            storage.delete_object(BUCKET, "out/deep/a")
            assert not (tmp_path / BUCKET / "out").exists()
        storage.close()

    asyncio.run(run())


@pytest.mark.parametrize("key", ["a", "b"], ids=["object", "what is known of it"])
def test_a_key_without_a_place_leaves_nothing_behind(tmp_path: Path, key: str) -> None:
    """A folder is where one of its two files would be."""

    async def run() -> None:
        storage = Storage(tmp_path)
        storage.create_bucket(BUCKET)
        for other in ("a/x", "b.json/x"):
            await storage.put_object(BUCKET, other, body_of(b"1"))
        with pytest.raises(IsADirectoryError):
            await storage.put_object(BUCKET, key, body_of(b"2"))
        storage.close()

    asyncio.run(run())
    files = [file.relative_to(tmp_path / BUCKET).as_posix() for file in (tmp_path / BUCKET).rglob("*") if file.is_file()]
    assert sorted(files) == [".nanio-meta/a/x.json", ".nanio-meta/b.json/x.json", "a/x", "b.json/x"]
    assert list((tmp_path / ".nanio" / "small").iterdir()) == []
    again = Storage(tmp_path)
    again.close()


def test_a_second_process_does_not_touch_what_the_first_is_writing(tmp_path: Path) -> None:
    Storage(tmp_path).close()
    first = Storage(tmp_path)
    half = tmp_path / ".nanio" / "small" / "0"
    half.write_bytes(b"half")
    with pytest.raises(LogFailed, match="locked"):
        Storage(tmp_path)
    assert half.read_bytes() == b"half"
    first.close()
