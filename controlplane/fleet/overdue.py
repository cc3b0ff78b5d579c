"""When an end that was asked for is overdue. Pure.

Nothing follows from it but that somebody is told: the end goes on being asked for, and the instance goes on costing,
until its provider no longer knows it.
"""

from datetime import datetime, timedelta

from controlplane.fleet.states import InstanceStage

END_OVERDUE_SECONDS = 300.0
"""An instance that was asked to end has 30 s to stop by itself; ten times that and something is wrong."""

TELL_AGAIN_SECONDS = 3600.0
"""How often an end that stays overdue is told of."""


def is_end_overdue(asked_at: datetime, now: datetime) -> bool:
    """Whether an end asked for at `asked_at` should have come by now."""
    return now - asked_at > timedelta(seconds=END_OVERDUE_SECONDS)


def is_overdue(stage: str, since: datetime, now: datetime) -> bool:
    """Whether an instance that has been in its stage since then should be gone by now."""
    return stage == InstanceStage.TERMINATING and is_end_overdue(since, now)


def is_to_be_told(told_at: datetime | None, now: datetime) -> bool:
    """Whether it is time to tell (again) of something that stays wrong."""
    return told_at is None or now - told_at >= timedelta(seconds=TELL_AGAIN_SECONDS)
