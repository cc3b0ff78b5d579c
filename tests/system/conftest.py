"""One running Headrace for all system tests; each test uses names of its own and leaves it whole."""

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.openapi import Document
from tests.system.stack import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Headrace, up and ready."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-system-"))
    data_dir.chmod(0o755)
    running = Stack(data_dir)
    try:
        running.start()
        with urllib.request.urlopen(f"{running.url}/api/v1/schema/") as answer:
            running.judge = Document(json.load(answer))
        yield running
    finally:
        running.stop()
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="session")
def bucket(stack: Stack) -> str:
    """A bucket in the store, reached through the front door."""
    stack.client("s3").create_bucket(Bucket="system-tests")
    return "system-tests"
