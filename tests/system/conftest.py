"""One running Headrace for all system tests of a process; each uses names of its own and leaves it whole.

For the package, not the session: the tests that come after them need not share the processor with it.
"""

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.openapi import Document
from tests.system.stack import Stack


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def bucket(stack: Stack) -> str:
    """A bucket in the store, reached through the front door."""
    stack.client("s3").create_bucket(Bucket="system-tests")
    return "system-tests"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What containers, which may be another user's, write down of their calls (see `asynchronous`)."""
    folder = tmp_path_factory.mktemp("journal")
    for each in (folder, *folder.parents[:3]):
        each.chmod(0o777)
    return folder / "calls.jsonl"
