"""A short run of the chaos over a whole Headrace."""

import pytest

from tests.chaos.run import Storm, run
from tests.system.stack import Stack

JOBS = 1_500
RATE = 60.0
"""Requests a second, so that the gateway is asked while the database is away, too."""


@pytest.mark.timeout(600)
def test_every_accepted_request_has_one_outcome_whoever_is_killed_meanwhile(stack: Stack) -> None:
    outcome = run(stack, Storm(JOBS, seed=7, rate=RATE), lambda text: None)
    assert outcome.audit.faults == []
    assert outcome.audit.promised == JOBS
    assert outcome.audit.rows.total() == JOBS + outcome.audit.unasked
    assert outcome.killed.total() > 0
