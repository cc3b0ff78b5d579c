"""A short storm of every seed; `make faults` has the long ones."""

import pytest

from tests.fakes.clock import FakeClock
from tests.faults.storm import Storm, make_account


@pytest.mark.parametrize("seed", [1, 2])
def test_after_the_storm_nothing_is_leaked_doubled_or_stuck(
    transactional_db: None, fake_clock: FakeClock, seed: int
) -> None:
    make_account(fake_clock.now())
    outcome = Storm(seed, fake_clock).run(60)
    print(outcome)
    assert outcome.is_good, (outcome.leaked, outcome.doubled, outcome.stuck)
