"""What notices tell of endpoints and requests."""

from uuid import UUID

import pytest

from controlplane.invocations.notices import CANCELLED_NOTICE, Queued, queued

HERE, REQUEST = UUID(int=1), UUID(int=2)


def test_a_notice_names_an_endpoint_and_a_request_that_is_alone() -> None:
    assert queued(f"{HERE} {REQUEST}") == Queued(HERE, REQUEST)
    assert queued(str(HERE)) == Queued(HERE, None)


@pytest.mark.parametrize("notice", ["", CANCELLED_NOTICE, f"unreached {HERE}", f"{HERE} what", f"{HERE} {REQUEST} what"])
def test_other_notices_name_no_endpoint(notice: str) -> None:
    assert queued(notice) is None
