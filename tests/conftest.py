"""Fixtures shared by all tests."""

from collections.abc import Iterator

import pytest

from controlplane.core import clock
from tests.fakes.clock import FakeClock


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Time stands still until the test moves it."""
    fake = FakeClock()
    previous = clock.use(fake)
    yield fake
    clock.use(previous)
