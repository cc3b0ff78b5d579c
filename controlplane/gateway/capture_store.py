"""Writing captured calls to the object store. boto3 blocks: call this in a thread of its own."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from controlplane.gateway.capture_record import Record, file_name, folder, line

CALL_SECONDS = 10

OBJECT_BYTES = 8 * 1024 * 1024
"""How much of what went in and out one object holds; written down, a third more."""


@dataclass
class CaptureStore:
    """The store that the installation uses; its client is made at the first use, which most gateways never come to."""

    endpoint_url: str
    region: str
    _client: Any = field(default=None, repr=False)

    def write(self, records: Iterable[Record]) -> tuple[list[Record], str]:
        """Write records to where they belong. Those that could not be written, and why the last of them."""
        left: list[Record] = []
        why = ""
        for (place, key_id), found in _by_place(records).items():
            for each in _objects(found):
                try:
                    self._put(f"{place}/{file_name(each[0])}", b"".join(map(line, each)), key_id)
                except (BotoCoreError, ClientError) as error:
                    left += each
                    why = f"{place}: {error}"
        return left, why

    def _put(self, location: str, body: bytes, key_id: str) -> None:
        bucket, _, key = location.removeprefix("s3://").partition("/")
        encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key_id} if key_id else {}
        self._connected().put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/jsonlines", **encryption)

    def _connected(self) -> Any:
        if self._client is None:
            self._client = boto3.Session().client(
                "s3",
                endpoint_url=self.endpoint_url or None,
                region_name=self.region,
                config=Config(
                    connect_timeout=5,
                    read_timeout=CALL_SECONDS,
                    retries={"max_attempts": 1},
                    s3={"addressing_style": "path" if self.endpoint_url else "auto"},
                    # Stores other than AWS's own do not all know the newer checksums.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
        return self._client


def _objects(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records of one place, cut so that an object holds OBJECT_BYTES or one record."""
    batch: list[Record] = []
    size = 0
    for record in records:
        more = sum(len(side.data) for side in (record.input, record.output) if side is not None)
        if batch and size + more > OBJECT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += more
    if batch:
        yield batch


def _by_place(records: Iterable[Record]) -> Mapping[tuple[str, str], list[Record]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((folder(record), record.capture.kms_key_id), []).append(record)
    return found
