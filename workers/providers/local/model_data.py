"""Fetching a model's data: `python model_data.py S3_URL DIRECTORY`, a process of its own so that it can be timed out.

Takes a tar, compressed or not, from an s3:// location and unpacks it. What it would take is looked at before it is
taken: the archive's size, the size and number of its members; a member that would land outside is refused by tarfile's
`data` filter. The store's address and keys come from the environment, as for boto3 itself. The last line it prints is
the reason of its failure.
"""

import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ARCHIVE_LIMIT_BYTES = 50 * 1024**3
UNPACKED_LIMIT_BYTES = 200 * 1024**3
MEMBERS_LIMIT = 100_000
CHUNK_BYTES = 1024 * 1024


def fetch(url: str, directory: Path) -> None:
    """Download and unpack; raises ValueError for what is refused, and what boto3 and tarfile raise."""
    bucket, key = split_url(url)
    client = boto3.Session().client(
        "s3",
        endpoint_url=os.environ.get("HEADRACE_S3_ENDPOINT_URL") or None,
        region_name=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 3}),
    )
    answer = client.get_object(Bucket=bucket, Key=key)
    if answer["ContentLength"] > ARCHIVE_LIMIT_BYTES:
        raise ValueError(f"the archive holds {answer['ContentLength']} bytes; {ARCHIVE_LIMIT_BYTES} are allowed")
    with tempfile.TemporaryFile(dir=directory) as archive:
        for part in answer["Body"].iter_chunks(CHUNK_BYTES):
            archive.write(part)
        archive.seek(0)
        unpack(archive, directory)


def split_url(url: str) -> tuple[str, str]:
    """Bucket and key; the key is taken as it is, whatever characters it holds."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or not bucket or not key:
        raise ValueError("model data is fetched from s3://bucket/key only")
    return bucket, key


def unpack(
    archive: IO[bytes],
    directory: Path,
    unpacked_limit_bytes: int = UNPACKED_LIMIT_BYTES,
    members_limit: int = MEMBERS_LIMIT,
) -> None:
    """Unpack a tar member by member; raises ValueError at a limit and tarfile's FilterError for one that would escape."""
    size = count = 0
    with tarfile.open(fileobj=archive, mode="r:*") as members:
        for member in members:
            size, count = size + member.size, count + 1
            if size > unpacked_limit_bytes or count > members_limit:
                raise ValueError(
                    f"the archive unpacks to more than {unpacked_limit_bytes} bytes or {members_limit} members"
                )
            members.extract(member, directory, filter="data")


def main(url: str, directory: Path) -> None:
    """Fetch, or leave with the reason as one line."""
    try:
        fetch(url, directory)
    except (BotoCoreError, ClientError, tarfile.TarError, EOFError, OSError, ValueError) as error:
        sys.exit(f"{url}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
