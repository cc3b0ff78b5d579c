"""A control plane whose provider can be used behind its back, as a crash or a paused worker does."""

import pytest

from tests.workers.plane import Plane
from tests.workers.sweep.strays import Strays


@pytest.fixture
def strays(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> Strays:
    """What makes orphans, sweeps, and tells what became of them."""
    return Strays(plane, monkeypatch)
