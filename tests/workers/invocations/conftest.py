"""Containers for the tests of this package."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane.gateway.site import Container, container


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """One running reference container."""
    with container(tmp_path_factory.mktemp("model"), "model") as running:
        yield running


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Callable[[str], Container]]:
    """Starts reference containers for one test."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(container(tmp_path, name))
