"""The object store: outputs and payloads at s3:// locations, each output marked with the invocation that wrote it.

    StoreFailed
      StoreAway       it did not answer, or said that it cannot now: worth another try
      StoreRefused    it said no: access denied, no such bucket, a key that it cannot encrypt with
        StoreMissing  there is no such object

boto3 blocks, so its calls run in threads. The mark answers the one question after a crash: is this object mine? An object
appears whole or not at all: larger ones are uploaded in parts, which the store puts together at the end.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from typing import IO, Any, ParamSpec, TypeVar
from uuid import UUID

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, IncompleteReadError, ParamValidationError
from urllib3.exceptions import HTTPError

from controlplane.invocations.outputs import MARK
from workers.invocations.quick_put import SMALL_BYTES, QuickPut

ANY_TYPE = "application/octet-stream"

CALL_TIMEOUT_SECONDS = 30
THREADS = 32
"""Calls of the store at once."""

PART_BYTES = 8 * 1024 * 1024
"""Objects of more than this are uploaded in parts of this size, one after the other."""

_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchVersion"})
_AWAY = frozenset({"RequestTimeout", "RequestTimeTooSkewed", "SlowDown", "OperationAborted", "InternalError"})
"""Error codes of the 400s, and of answers without a telling status, that are worth another try."""

_PARTS = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False)


P = ParamSpec("P")
T = TypeVar("T")


class StoreFailed(Exception):
    """The store refused or did not answer."""


class StoreAway(StoreFailed):
    """No answer, or one that says: not now."""


class StoreRefused(StoreFailed):
    """The store said no, and would again."""


class StoreMissing(StoreRefused):
    """There is no such object or bucket."""


class Store:
    """An S3 client."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
        session = boto3.Session()
        self._quick_put = QuickPut(endpoint_url, region, session.get_credentials())
        self._client: Any = session.client(
            "s3",
            endpoint_url=endpoint_url or None,
            region_name=region,
            config=Config(
                connect_timeout=5,
                read_timeout=CALL_TIMEOUT_SECONDS,
                retries={"max_attempts": 2},
                max_pool_connections=64,
                s3={"addressing_style": "path" if endpoint_url else "auto"},
                # Stores other than AWS's own do not all know the newer checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    async def put(
        self, location: str, body: IO[bytes] | bytes, content_type: str, invocation_id: UUID, kms_key_id: str = ""
    ) -> None:
        """Write a whole object, a file from its start; encrypted with the KMS key if one is named. Raises StoreFailed."""
        if not kms_key_id and await self._put_quickly(location, body, content_type, invocation_id):
            return
        await self._in_thread(self._put, location, body, content_type, invocation_id, kms_key_id)

    async def _put_quickly(self, location: str, body: IO[bytes] | bytes, content_type: str, invocation_id: UUID) -> bool:
        """Whether the object is kept; False where the SDK should put it."""
        if not isinstance(body, bytes):
            if _size(body) > SMALL_BYTES:
                return False
            body = body.read()
        bucket, key = place_of(location)
        headers = {"content-type": content_type or ANY_TYPE, f"x-amz-meta-{MARK}": str(invocation_id)}
        return await self._quick_put(bucket, key, body, headers)

    def _put(self, location: str, body: IO[bytes] | bytes, content_type: str, invocation_id: UUID, kms_key_id: str) -> None:
        bucket, key = place_of(location)
        about: dict[str, Any] = {
            "ContentType": content_type or ANY_TYPE,
            "Metadata": {MARK: str(invocation_id)},
        }
        if kms_key_id:
            about |= {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key_id}
        with _faults(location):
            if isinstance(body, bytes) or _size(body) <= PART_BYTES:
                whole = body if isinstance(body, bytes) else body.read()
                self._client.put_object(Bucket=bucket, Key=key, Body=whole, **about)
            else:
                self._client.upload_fileobj(_Unclosed(body), bucket, key, ExtraArgs=about, Config=_PARTS)
            if kms_key_id:
                self._check_encrypted(location, bucket, key)

    def _check_encrypted(self, location: str, bucket: str, key: str) -> None:
        """A store that does not know of keys ignores them: what it holds in clear is taken away again, and told."""
        if self._client.head_object(Bucket=bucket, Key=key).get("ServerSideEncryption") in ("aws:kms", "aws:kms:dsse"):
            return
        self._client.delete_object(Bucket=bucket, Key=key)
        raise StoreRefused(f"The output store did not encrypt {location} with the KmsKeyId of the endpoint.")

    async def has(self, location: str, invocation_id: UUID) -> bool:
        """Whether the object there was written by this invocation; raises StoreAway when the store cannot say.

        A store that lets nobody look (without leave to list, S3 denies access to a missing object) has none.
        """
        try:
            found = await self._in_thread(self._head, location)
        except StoreRefused:
            return False
        return bool(found.get("Metadata", {}).get(MARK) == str(invocation_id))

    def _head(self, location: str) -> dict[str, Any]:
        bucket, key = place_of(location)
        with _faults(location):
            found: dict[str, Any] = self._client.head_object(Bucket=bucket, Key=key)
        return found

    async def remove(self, location: str) -> None:
        """Remove the object, if it is there; raises StoreFailed."""
        await self._in_thread(self._remove, location)

    def _remove(self, location: str) -> None:
        bucket, key = place_of(location)
        try:
            with _faults(location):
                self._client.delete_object(Bucket=bucket, Key=key)
        except StoreMissing:
            return

    async def read(self, location: str, limit: int) -> tuple[str, bytes | None]:
        """An object's content type and its bytes, None if there are more than `limit`; raises StoreFailed."""
        return await self._in_thread(self._read, location, limit)

    def _read(self, location: str, limit: int) -> tuple[str, bytes | None]:
        about = self._head(location)
        if about["ContentLength"] > limit:
            return about["ContentType"], None
        return about["ContentType"], b"".join(self.chunks(location, limit + 1))

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Take no more calls; those that run end by themselves."""
        self._quick_put.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def chunks(self, location: str, size: int) -> Iterator[bytes]:
        """An object's bytes, in pieces of at most `size`; blocks; raises StoreFailed."""
        bucket, key = place_of(location)
        with _faults(location):
            body = self._client.get_object(Bucket=bucket, Key=key)["Body"]
            with closing(body):
                yield from body.iter_chunks(size)


def place_of(location: str) -> tuple[str, str]:
    """Bucket and key of an s3:// location: what is up to the first slash, whatever it holds, and the rest.

    It is no URL: a parser of these would take `?`, `#`, `[` and letters that look like them for something of its own.
    """
    bucket, _, key = location.partition("://")[2].partition("/")
    return bucket, key


def _size(file: IO[bytes]) -> int:
    """The file's size in bytes; leaves it at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


class _Unclosed:
    """A file that the transfer manager must not close: it may be asked to send it again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


@contextmanager
def _faults(location: str) -> Iterator[None]:
    """Tells what went wrong in the words of this module."""
    where = f"The store could not be used at {location}: "
    try:
        yield
    except ParamValidationError as error:
        raise StoreRefused(f"{where}{error}") from error
    except ClientError as error:
        raise _kind_of(error)(f"{where}{error}") from error
    except (BotoCoreError, IncompleteReadError, HTTPError, OSError) as error:
        raise StoreAway(f"{where}{error}") from error


def _kind_of(error: ClientError) -> type[StoreFailed]:
    code = error.response["Error"].get("Code", "")
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return StoreRefused  # it is there, and will never do this
    if code in _AWAY or status in (408, 429) or not 300 <= status < 500:
        return StoreAway
    return StoreMissing if code in _MISSING or code == "NoSuchBucket" else StoreRefused
