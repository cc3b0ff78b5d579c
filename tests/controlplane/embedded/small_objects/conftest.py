"""What is tested here is tested against a full log: nothing settles of itself."""

from collections.abc import Iterator

import pytest

from controlplane.embedded.small_objects import keeper


@pytest.fixture(autouse=True, scope="module")
def unsettled() -> Iterator[None]:
    """Files are synced only where a test asks for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper, "SETTLE_SECONDS", 3600.0)
        yield
