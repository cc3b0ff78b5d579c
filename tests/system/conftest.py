"""One running Headrace for all system tests of a process; each uses names of its own and leaves it whole.

For the package, not the session: the tests that come after them need not share the processor with it.
"""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.openapi import Document
from tests.system.stack import Stack, running


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """Headrace, up and ready."""
    with running() as started:
        with urllib.request.urlopen(f"{started.url}/api/v1/schema/") as answer:
            started.judge = Document(json.load(answer))
        yield started


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
