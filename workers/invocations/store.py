"""The output store: objects at s3:// locations, each marked with the invocation that wrote it.

boto3 blocks, so its calls run in threads. The mark answers the one question after a crash: is this object mine?
"""

import asyncio
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urlsplit
from uuid import UUID

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

MARK = "headrace-invocation"

CALL_TIMEOUT_SECONDS = 30


class StoreFailed(Exception):
    """The store refused or did not answer."""


class Store:
    """An S3 client for outputs."""

    def __init__(self, endpoint_url: str, region: str) -> None:
        self._client: Any = boto3.client(
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

    async def put(self, location: str, body: IO[bytes] | bytes, content_type: str, invocation_id: UUID) -> None:
        """Write a whole object; raises StoreFailed."""
        await self._call(
            "put_object",
            location,
            Body=body,
            ContentType=content_type or "application/octet-stream",
            Metadata={MARK: str(invocation_id)},
        )

    async def has(self, location: str, invocation_id: UUID) -> bool:
        """Whether the object there was written by this invocation; raises StoreFailed when the store cannot say."""
        try:
            found = await self._call("head_object", location)
        except StoreFailed as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and cause.response["Error"]["Code"] in ("404", "NoSuchKey", "NotFound"):
                return False
            raise
        return bool(found.get("Metadata", {}).get(MARK) == str(invocation_id))

    async def _call(self, operation: str, location: str, **params: object) -> Mapping[str, Any]:
        place = urlsplit(location)
        key = location.partition("://")[2].partition("/")[2]
        call = getattr(self._client, operation)
        try:
            answer: Mapping[str, Any] = await asyncio.to_thread(call, Bucket=place.netloc, Key=key, **params)
        except (BotoCoreError, ClientError) as error:
            raise StoreFailed(f"The output store could not be used at {location}: {error}") from error
        return answer
