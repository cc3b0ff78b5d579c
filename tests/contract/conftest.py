"""Every test of the contract runs once for each provider."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.sites import SITES, Site


@pytest.fixture(params=sorted(SITES))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A provider over fresh state."""
    made = SITES[request.param](tmp_path)
    yield made
    made.close()
