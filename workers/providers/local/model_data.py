"""Fetching a model's data: `python model_data.py S3_URL DIRECTORY`, a process of its own so that it can be timed out.

Takes a gzipped tar from an s3:// location and unpacks it; members that would land outside are refused by tarfile's
`data` filter. The store's address and keys come from the environment, as for boto3 itself.
"""

import os
import sys
import tarfile
import tempfile
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

SIZE_LIMIT_BYTES = 50 * 1024**3


def fetch(url: str, directory: str) -> None:
    """Download and unpack; raises what boto3 and tarfile raise."""
    location = urlsplit(url)
    client = boto3.client(
        "s3",
        endpoint_url=os.environ.get("HEADRACE_S3_ENDPOINT_URL") or None,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 3}),
    )
    answer = client.get_object(Bucket=location.netloc, Key=location.path.lstrip("/"))
    if answer["ContentLength"] > SIZE_LIMIT_BYTES:
        raise ValueError(f"the archive holds {answer['ContentLength']} bytes; {SIZE_LIMIT_BYTES} are allowed")
    with tempfile.TemporaryFile(dir=directory) as archive:
        for part in answer["Body"].iter_chunks(1024 * 1024):
            archive.write(part)
        archive.seek(0)
        with tarfile.open(fileobj=archive, mode="r:*") as members:
            members.extractall(directory, filter="data")


if __name__ == "__main__":
    try:
        fetch(sys.argv[1], sys.argv[2])
    except (BotoCoreError, ClientError, tarfile.TarError, OSError, ValueError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
