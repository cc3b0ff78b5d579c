"""A browser, and two running installations for it: one on the simulated provider, one with real processes."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import launched
from tests.system.stack import Stack
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.world import World

FIRST, SECOND, PLENTY = "ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.large"
CAPACITY = {FIRST: 0, SECOND: 12, PLENTY: 60}
ZONES = "zone-a,zone-b"


class SimulatedStack(Stack):
    """An installation whose instances are simulated, with the world below it."""

    def __init__(self, data_dir: Path) -> None:
        changes = {
            "HEADRACE_PROVIDER": "simulated",
            "HEADRACE_SIMULATED_CAPACITY": json.dumps(CAPACITY),
            "HEADRACE_SIMULATED_ZONES": ZONES,
        }
        super().__init__(data_dir, **changes)
        self.world: World = SimulatedProvider.stored(data_dir, changes).world


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's Chromium.

    Not for longer: while playwright is up, its event loop counts as running in this thread, and Django refuses to
    use the database beside one.
    """
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package")
def simulated() -> Iterator[SimulatedStack]:
    """Headrace on the simulated provider: FIRST is dry, instances serve no calls."""
    with _directory() as data_dir:
        stack = SimulatedStack(data_dir)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()
            stack.world.close()


@pytest.fixture(scope="package")
def local() -> Iterator[Stack]:
    """Headrace with real processes for instances, which serve calls; see `tests.system.stack` for its capacity."""
    with _directory() as data_dir:
        stack = Stack(data_dir)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop()


@contextmanager
def _directory() -> Iterator[Path]:
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-browser-"))
    data_dir.chmod(0o755)
    try:
        yield data_dir
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
