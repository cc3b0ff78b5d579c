"""What becomes of a message after its topic did not take it. Pure.

A result's message is tried for as long as a day, with pauses that double up to five minutes; a test's for a minute, since
the operation that it belongs to waits for it. A topic that says no is believed after REFUSALS_LIMIT times.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

PAUSE_FIRST_SECONDS = 1.0
PAUSE_LAST_SECONDS = 300.0
RESULT_SECONDS = 86_400.0
TEST_SECONDS = 60.0
REFUSALS_LIMIT = 3


@dataclass(frozen=True)
class Later:
    """To be tried again at `due_at`."""

    due_at: datetime


@dataclass(frozen=True)
class GiveUp:
    """Not to be tried again."""


def after_failure(*, is_test: bool, is_refusal: bool, attempts: int, created_at: datetime, now: datetime) -> Later | GiveUp:
    """The step after the `attempts`th try (1 or more) failed; `is_refusal`: the topic said no, and would again.

    Refusals and absences are not told apart afterwards, so it is the count of tries that ends refusals.
    """
    if is_refusal and attempts >= (1 if is_test else REFUSALS_LIMIT):
        return GiveUp()
    pause = min(PAUSE_FIRST_SECONDS * 2.0 ** min(attempts - 1, 20), PAUSE_LAST_SECONDS)
    due_at = now + timedelta(seconds=pause)
    limit = TEST_SECONDS if is_test else RESULT_SECONDS
    return GiveUp() if due_at > created_at + timedelta(seconds=limit) else Later(due_at)
