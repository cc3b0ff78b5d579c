"""A Headrace of the chaos' own: nobody else should meet a database that was just killed."""

from collections.abc import Iterator

import pytest

from tests.system.stack import Stack, running


@pytest.fixture
def stack() -> Iterator[Stack]:
    """Headrace, up and ready."""
    with running() as started:
        yield started
