"""nanio's storage, with small objects kept by the log; all else is nanio's own doing.

An object that nanio writes or removes may be one that the log still holds: it is told to forget it, and no answer is given
before it has.
"""

import base64
import logging
from collections.abc import AsyncIterator
from hashlib import md5
from pathlib import Path
from typing import Any

from nanio.errors import BadDigest, BucketNotEmpty, InvalidObjectName, NoSuchBucket
from nanio.keys import validate_object_key
from nanio.storage.backend import GetObjectResult, ObjectInfo
from nanio.storage.filesystem import FilesystemStorage

from controlplane.core import clock
from controlplane.embedded.small_objects.files import NO_PLACE, Files, about
from controlplane.embedded.small_objects.keeper import Keeper
from controlplane.embedded.small_objects.log import PutLog

SMALL_BYTES = 64 * 1024
"""What is kept so. A log that is to hold larger ones writes them twice for little."""

said = logging.getLogger(__name__)


class Storage:
    """The objects below `root`; whatever is not said here is nanio's storage. What a killed process had in its log is
    written at the start. Raises OSError where that is impossible.
    """

    def __init__(self, root: Path) -> None:
        self._inner = FilesystemStorage(root)
        log = PutLog(root / ".nanio" / "small.log")  # which waits for another process to end
        self._files = Files(root)
        self._restore(log)
        self._keeper = Keeper(log, self._files.write, self._files.sync)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def put_object(self, bucket: str, key: str, body: AsyncIterator[bytes], **members: Any) -> ObjectInfo:
        """Keep an object, however large; raises nanio's S3Error, OSError or LogFailed."""
        self.prepare(bucket, key)
        start, is_all = await _start_of(body)
        if not is_all:
            info = await self._inner.put_object(bucket, key, _joined(start, body), **members)
            self.forget(bucket, key)
            return info
        expected = members.pop("expected_md5", None)
        if expected is not None and base64.b64encode(md5(start, usedforsecurity=False).digest()).decode() != expected:
            raise BadDigest
        return await self.keep(bucket, key, start, members)

    async def copy_object(self, from_bucket: str, from_key: str, bucket: str, key: str) -> ObjectInfo:
        """Copy an object; raises as nanio's does."""
        _check(from_key)
        _check(key)
        info = await self._inner.copy_object(from_bucket, from_key, bucket, key)
        self.forget(bucket, key)
        return info

    def head_object(self, bucket: str, key: str) -> ObjectInfo:
        """What is known of an object; raises as nanio's does."""
        _check(key)
        return self._inner.head_object(bucket, key)

    async def get_object(self, bucket: str, key: str, **members: Any) -> GetObjectResult:
        """An object; raises as nanio's does."""
        _check(key)
        return await self._inner.get_object(bucket, key, **members)

    def delete_bucket(self, bucket: str) -> None:
        """Remove a bucket in which nothing is, nor is being put; raises as nanio's does."""
        if self._keeper.is_coming(bucket):
            raise BucketNotEmpty(resource=bucket)
        self._inner.delete_bucket(bucket)
        self._files.forget_bucket(bucket)
        self._keeper.forget_bucket(bucket)

    def delete_object(self, bucket: str, key: str) -> None:
        """Remove an object, if it is there."""
        _check(key)
        self._inner.delete_object(bucket, key)
        self.forget(bucket, key)

    def prepare(self, bucket: str, key: str) -> None:
        """Refuse what cannot be put, and make the folders; raises S3Error or OSError."""
        _check(key)
        if not self._files.knows(bucket, key):
            self._inner.head_bucket(bucket)
            self._files.make_folders(bucket, key)

    async def keep(self, bucket: str, key: str, body: bytes, members: dict[str, Any]) -> ObjectInfo:
        """Keep a small object that was prepared; `members` are those of ObjectInfo that a client says."""
        if not self._files.knows(bucket, key):
            self.prepare(bucket, key)  # the bucket may have gone since
        etag = f'"{md5(body, usedforsecurity=False).hexdigest()}"'
        members["user_metadata"] = dict(members.get("user_metadata") or {})
        info = ObjectInfo(key=key, size=len(body), etag=etag, last_modified=clock.now(), **members)
        try:
            await self._keeper.keep(bucket, key, body, about(info))
        except FileNotFoundError as fault:
            raise NoSuchBucket(resource=bucket) from fault  # removed meanwhile
        return info

    def forget(self, bucket: str, key: str) -> None:
        """The object is nanio's now."""
        self._keeper.forget(bucket, key)

    async def changed(self) -> None:
        """Returns once the log has forgotten what it was to forget. Raises LogFailed."""
        await self._keeper.changed()

    def clear_way(self, bucket: str, key: str) -> None:
        """Ready the place where nanio is about to write."""
        self._files.clear_way(bucket, key)

    async def settle(self) -> None:
        """Have all objects on disk and the log empty. Raises OSError or LogFailed."""
        await self._keeper.settle()

    def close(self) -> None:
        """End what runs."""
        self._keeper.close()
        self._files.close()

    def _restore(self, log: PutLog) -> None:
        found = False
        for entry in log.entries():
            found = True
            try:
                self._files.restore(entry)
            except OSError as fault:
                if fault.errno not in NO_PLACE:
                    raise
                said.warning("s3://%s/%s was being put and has no place: %s", entry.bucket, entry.key, fault)
        if found:
            self._files.sync()
            log.clear()


def _check(key: str) -> None:
    r"""Refuse what is no key, and `..` between backslashes too, on which nanio would fail whenever it meets it."""
    validate_object_key(key)
    if is_way_out(key):
        raise InvalidObjectName("object key may not contain `..` between slashes of either kind")


def is_way_out(key: str) -> bool:
    """Whether a part of the key is `..`, whichever slash is about it."""
    return ".." in key.replace("\\", "/").split("/")


async def _start_of(body: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """The start of a body, and whether that is all of it: it is where it is small."""
    chunks, size = [], 0
    async for chunk in body:
        chunks.append(chunk)
        size += len(chunk)
        if size > SMALL_BYTES:
            return b"".join(chunks), False
    return b"".join(chunks), True


async def _joined(start: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield start
    async for chunk in rest:
        yield chunk
