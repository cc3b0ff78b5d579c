"""What an asynchronous request left in the store, for callers who have no key of the store.

It is read with Headrace's own credentials, so only what Headrace itself wrote is given out: the object at the location
must carry the mark of the very request (`workers.invocations.store` puts it there). Whatever else lies, or came to lie, at
a location that a caller has named stays unread. Makes network calls: not to be used inside a transaction.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from controlplane.core.errors import ApiError, ResourceNotFound, ServiceUnavailable
from controlplane.core.outside import must_be_outside

MARK = "headrace-invocation"
"""The object's metadata that names the request which wrote it."""

CHUNK_BYTES = 256 * 1024
_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchBucket", "NoSuchVersion"})


@dataclass(frozen=True)
class Output:
    """A stored answer: its length in bytes and its pieces, to be read once."""

    content_type: str
    length: int
    pieces: Iterator[bytes]


def read(endpoint_url: str, region: str, location: str, request_id: UUID) -> Output:
    """The answer of a request at its s3:// location; raises ResourceNotFound, ServiceUnavailable."""
    must_be_outside("Reading an answer from the store")
    bucket, _, key = location.removeprefix("s3://").partition("/")
    try:
        found = _client(endpoint_url, region).get_object(Bucket=bucket, Key=key)
    except (ClientError, BotoCoreError) as error:
        raise _as_api_error(error, request_id, location) from error
    if found["Metadata"].get(MARK) != str(request_id):
        found["Body"].close()
        raise _missing(request_id, location)
    return Output(found["ContentType"], found["ContentLength"], _pieces(found["Body"]))


def _pieces(body: Any) -> Iterator[bytes]:
    with closing(body):
        yield from body.iter_chunks(CHUNK_BYTES)


def _as_api_error(error: Exception, request_id: UUID, location: str) -> ApiError:
    code = error.response["Error"].get("Code", "") if isinstance(error, ClientError) else ""
    if code in _MISSING:
        return _missing(request_id, location)
    return ServiceUnavailable(f"The store cannot be read at {location} now. Try again in a moment.")


def _missing(request_id: UUID, location: str) -> ResourceNotFound:
    return ResourceNotFound(f"The answer of request {request_id} is no longer at {location}.")


@lru_cache(maxsize=4)
def _client(endpoint_url: str, region: str) -> Any:
    """The store's client: shared by all threads, as boto3's clients may be."""
    return boto3.Session().client(
        "s3",
        endpoint_url=endpoint_url or None,
        region_name=region,
        config=Config(
            connect_timeout=5,
            read_timeout=30,
            retries={"max_attempts": 2},
            s3={"addressing_style": "path" if endpoint_url else "auto"},
            # Stores other than AWS's own do not all know the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
