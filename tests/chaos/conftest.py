"""A Headrace of the chaos' own: nobody else should meet a database that was just killed."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.stack import Stack


@pytest.fixture
def stack() -> Iterator[Stack]:
    """Headrace, up and ready."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    data_dir.chmod(0o755)
    running = Stack(data_dir)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(data_dir, ignore_errors=True)
