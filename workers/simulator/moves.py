"""How many instances may come home at once: `workers.fleet.moves` restated without its database."""

from datetime import datetime, timedelta

from workers.simulator.fleet import Subject

RETRY_SECONDS = 60.0
"""As in `workers.fleet.moves`: a move for which there was no room is tried again this late."""


class Moves:
    """The endpoints with a move under way, at most `budget` of them; an endpoint makes one move at a time."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._moving: set[str] = set()

    def may_start(self, subject: Subject, now: datetime) -> bool:
        """Whether one more move may start; it counts from now on. If not, the endpoint waits for its next turn."""
        if subject.name not in self._moving and len(self._moving) >= self._budget:
            subject.move_not_before = now + timedelta(seconds=RETRY_SECONDS)
            return False
        self._moving.add(subject.name)
        return True

    def review(self, subject: Subject) -> None:
        """Called when an endpoint comes to rest: whether its move is over."""
        if subject.name not in self._moving:
            return
        is_moving = any(machine.row.replaces for machine in subject.machines.values())
        if not is_moving and not any(attempt.replaces for attempt in subject.attempts):
            self._moving.discard(subject.name)
