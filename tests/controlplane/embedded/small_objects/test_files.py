"""The files of an object: written as they are to be, and synced."""

import os
from pathlib import Path

import pytest

from controlplane.embedded.small_objects.files import Files
from controlplane.embedded.small_objects.log import Entry
from tests.controlplane.embedded.small_objects.bodies import BUCKET


def test_a_system_that_cannot_sync_everything_has_each_file_synced_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync_one = os.fsync

    def sync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        sync_one(file)

    monkeypatch.setattr("controlplane.embedded.small_objects.files._syncfs", lambda: None)
    (tmp_path / BUCKET).mkdir()
    files = Files(tmp_path)
    monkeypatch.setattr(os, "fsync", sync)
    files.write(Entry(1, BUCKET, "a", b"the bytes", b"{}"))
    files.sync()
    files.close()
    both = (tmp_path / BUCKET / "a", tmp_path / BUCKET / ".nanio-meta" / "a.json")
    assert [file.read_bytes() for file in both] == [b"the bytes", b"{}"]
    assert {file.stat().st_ino for file in both} == set(synced)


def test_a_sync_that_fails_says_so(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.sync()
    files.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.sync()


def test_what_a_killed_process_was_writing_is_cleared_away(tmp_path: Path) -> None:
    scratch = tmp_path / ".nanio" / "small"
    scratch.mkdir(parents=True)
    (scratch / "7").write_bytes(b"half")
    Files(tmp_path).close()
    assert list(scratch.iterdir()) == []
