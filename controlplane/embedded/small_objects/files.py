"""An object and what is known about it as two files, laid out as nanio lays them out; written whole or not at all.

    ROOT/BUCKET/KEY                        the bytes
    ROOT/BUCKET/.nanio-meta/KEY.json       type, size, ETag, metadata
    ROOT/.nanio/small/                     what being written; what a killed process left goes at the start

Nothing is synced but by `sync`, which syncs everything. Where the system has no call that waits for that (macOS), each file
is synced as it is written, and `sync` has the folders and the drive follow.
"""

import ctypes
import errno
import fcntl
import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from nanio.storage.metadata import ObjectInfo
from nanio.storage.paths import assert_inside_data_dir, metadata_path, object_path

from controlplane.embedded.small_objects.log import Entry

NO_PLACE = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY})
"""The faults by which a file system says that a key has no place in it."""

FOLDERS_KNOWN = 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Files:
    """The objects below `root`. Folders that were looked at once are taken for what they are until one is not there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        self._numbers = count()
        self._scratch = str(root / ".nanio" / "small")
        os.makedirs(self._scratch, exist_ok=True)
        self._clear_scratch()
        self._folder = os.open(self._scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        """Open from first to last: an open file is told each fault that came after it was opened."""
        self._syncfs = _syncfs()

    def knows(self, bucket: str, key: str) -> bool:
        """Whether the object's folders are made."""
        return (bucket, key.rpartition("/")[0]) in self._known

    def make_folders(self, bucket: str, key: str) -> None:
        """Make the object's folders. Raises OSError where the key has no place among files."""
        self._known_anew(bucket, key.rpartition("/")[0])

    def write(self, entry: Entry) -> None:
        """Write both files, over those that are there. Raises OSError; then the object is as it was."""
        folder, _, name = entry.key.rpartition("/")
        try:
            self._write(self._known.get((entry.bucket, folder)) or self._known_anew(entry.bucket, folder), name, entry)
        except FileNotFoundError:  # a folder goes with its last object
            self._write(self._known_anew(entry.bucket, folder), name, entry)

    def restore(self, entry: Entry) -> None:
        """Write both files after a crash, which may have taken the bucket too."""
        (self._root / entry.bucket).mkdir(exist_ok=True)
        self.write(entry)

    def sync(self) -> None:
        """Have everything that was written on disk; blocks. Raises OSError, and says no more of these faults then."""
        if self._syncfs is None:
            os.sync()
            if hasattr(fcntl, "F_FULLFSYNC"):
                fcntl.fcntl(self._folder, fcntl.F_FULLFSYNC)
        elif self._syncfs(self._folder) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self._scratch)

    def forget_bucket(self, bucket: str) -> None:
        """Look at its folders anew."""
        self._known = {place: folders for place, folders in self._known.items() if place[0] != bucket}

    def close(self) -> None:
        """Close what is open."""
        os.close(self._folder)

    def clear_way(self, bucket: str, key: str) -> None:
        """Remove what a killed process left where nanio is about to write: it takes that for an object of this name."""
        with suppress(OSError, ValueError):
            place = metadata_path(self._root, bucket, key)
            place.with_suffix(place.suffix + ".tmp").unlink()

    def _known_anew(self, bucket: str, folder: str) -> tuple[str, str]:
        self._known.pop((bucket, folder), None)
        if not (self._root / bucket).is_dir():
            raise FileNotFoundError(f"no bucket {bucket}")
        if len(self._known) >= FOLDERS_KNOWN:
            self._known.clear()
        name = f"{folder}/x" if folder else "x"
        objects = object_path(self._root, bucket, name).parent
        about = metadata_path(self._root, bucket, name).parent
        for made in (objects, about):
            made.mkdir(parents=True, exist_ok=True)
            assert_inside_data_dir(self._root, made)
        found = self._known[(bucket, folder)] = (str(objects), str(about))
        return found

    def _write(self, folders: tuple[str, str], name: str, entry: Entry) -> None:
        """Two renames, between which nobody looks; if the process dies there, the log has both."""
        objects, about = folders
        place = f"{about}/{name}.json"
        try:
            body, known = self._scratched(entry.body), self._scratched(entry.about)
            os.replace(known, place)
            try:
                os.replace(body, f"{objects}/{name}")
            except OSError:  # no object can be there
                os.unlink(place)
                raise
        except OSError:
            self._clear_scratch()
            raise

    def _scratched(self, data: bytes) -> str:
        """The path of a new file that holds this."""
        scratch = f"{self._scratch}/{next(self._numbers)}"
        file = os.open(scratch, _NEW, 0o644)
        try:
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, data[written:])
            if self._syncfs is None:
                os.fsync(file)
        finally:
            os.close(file)
        return scratch

    def _clear_scratch(self) -> None:
        for name in os.listdir(self._scratch):
            os.unlink(f"{self._scratch}/{name}")


def about(info: ObjectInfo) -> bytes:
    """What nanio keeps about an object, in the words that it reads."""
    kept: dict[str, Any] = {
        "etag": info.etag,
        "size": info.size,
        "last_modified": info.last_modified.isoformat(),
        "content_type": info.content_type,
        "user_metadata": dict(info.user_metadata),
        "storage_class": info.storage_class,
        "content_encoding": info.content_encoding,
        "content_disposition": info.content_disposition,
        "cache_control": info.cache_control,
    }
    return json.dumps(kept, separators=(",", ":")).encode()


def _syncfs() -> Any:
    """The system's call that syncs the file system of an open file; None where there is none."""
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
