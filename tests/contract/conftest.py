"""Every test of the contract runs once for each provider."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.sites import SITES, Site


@pytest.fixture(params=sorted(SITES))
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A provider over fresh state."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    made = SITES[request.param](tmp_path)
    yield made
    made.close()
