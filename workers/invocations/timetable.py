"""When a dispatcher does what, and how long it waits in between. Pure.

every round          claim from the endpoints that are named
SCAN_SECONDS         look through all of them, and at what is left over
BEAT_SECONDS         say that the loop makes progress, with a look through all
RENEW_SECONDS        renew the leases of what runs; where nothing runs, so long after the first begins
"""

from math import inf

SCAN_SECONDS = 1.0
BEAT_SECONDS = 2.0
RENEW_SECONDS = 4.0


class Timetable:
    """What is due; times are of one monotonic clock. What is asked for once is not due again before its time."""

    def __init__(self) -> None:
        self._scan_at = self._beat_at = self._renew_at = 0.0

    def scan_now(self, now: float) -> None:
        """Anything may have changed."""
        self._scan_at = now

    def renew_now(self, now: float) -> None:
        """A lease may be lost."""
        self._renew_at = now

    def is_scan_due(self, now: float) -> bool:
        """Whether to look through all endpoints."""
        if now < self._scan_at:
            return False
        self._scan_at = now + SCAN_SECONDS
        return True

    def is_beat_due(self, now: float) -> bool:
        """Whether to say that the loop makes progress."""
        if now < self._beat_at:
            return False
        self._beat_at = now + BEAT_SECONDS
        return True

    def is_renewal_due(self, *, running: int, now: float) -> bool:
        """Whether to renew the leases of the `running` requests."""
        if running and now < self._renew_at:
            return False
        self._renew_at = now + RENEW_SECONDS  # of what is claimed next as well, which is good for longer
        return running > 0

    def wait_seconds(self, *, claim_in: float | None, running: int, now: float) -> float:
        """How long nothing is due; there is something to claim in `claim_in` seconds, None for nothing."""
        chores_at = min(self._scan_at, self._renew_at if running else inf)
        return max(min(chores_at - now, inf if claim_in is None else claim_in), 0.0)
