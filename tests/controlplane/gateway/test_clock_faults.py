"""A gateway whose host has the wrong time: what it accepts is as old as it is, by the database's clock."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.gateway.site import REPOSITORY, Site, wait_for

WRONG = """
from datetime import timedelta
from controlplane.core.clock import SystemClock

right = SystemClock.now
SystemClock.now = lambda self: right(self) + timedelta(seconds={ahead})
"""


@pytest.mark.parametrize("ahead", [200, -200], ids=["fast", "slow"])
def test_a_request_is_due_at_once_and_lives_as_long_as_it_may(
    new_site: Callable[..., Site], tmp_path: Path, ahead: int
) -> None:
    """By as much as signatures forgive. Of a gateway that is fast each request would wait for so long, and one that is slow
    would let a minute's time to live end before it began.
    """
    (tmp_path / "sitecustomize.py").write_text(WRONG.format(ahead=ahead))
    site = new_site(PYTHONPATH=f"{tmp_path}:{REPOSITORY}")
    site.publish("timely", failure_path="")

    def accepted() -> list[Any]:
        answer = site.client().invoke_endpoint_async(EndpointName="timely", Body=b"x", RequestTTLSeconds=60)
        query = (
            "SELECT extract(epoch FROM clock_timestamp() - accepted_at), extract(epoch FROM expires_at - accepted_at),"
            " due_at = accepted_at FROM invocations_asyncinvocation WHERE output_location = %s"
        )
        with site.database() as connection:
            row = connection.execute(query, [answer["OutputLocation"]]).fetchone()
        assert row is not None
        return list(row)

    assert wait_for(lambda: abs(accepted()[0]) < 5)  # told with the first heartbeat
    age, lifetime, is_due = accepted()
    assert 0 <= age + 1 < 6
    assert (lifetime, is_due) == (60, True)
