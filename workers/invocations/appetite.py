"""Which endpoints a dispatcher claims from next, and when. Pure.

    told (something was queued)  ----> named, claimed at once     while little runs
    freed (a slot of one whose    ----> named, claimed together    while much runs: once ENOUGH slots are free, or
           queue was not emptied)                                  GATHER_SECONDS after the first

An endpoint of which as much was claimed as there were slots for is hungry: it has more. What is queued there meanwhile is
no news, it waits for a slot like the rest, so that a full endpoint costs no statement for each request that it gets.
"""

from uuid import UUID

BUSY = 16
"""With so much running something ends all the time."""

ENOUGH = 16
GATHER_SECONDS = 0.025


class Appetite:
    """What one dispatcher knows of its endpoints; times are of one monotonic clock."""

    def __init__(self) -> None:
        self._named: dict[UUID, None] = {}
        self._hungry: set[UUID] = set()
        self._starved: set[UUID] = set()
        self._unheeded: set[UUID] = set()
        self._freed = 0
        self._since = 0.0

    def told(self, endpoint_id: UUID, *, held: int, now: float) -> None:
        """Something was queued at an endpoint of which `held` requests run here."""
        if endpoint_id in self._hungry and held > 0:
            self._unheeded.add(endpoint_id)
        else:
            self._name(endpoint_id, now)

    def freed(self, endpoint_id: UUID, now: float) -> None:
        """A slot of the endpoint is free again."""
        if endpoint_id in self._hungry:
            self._freed += 1
            self._name(endpoint_id, now)

    def ended(self, endpoint_id: UUID, *, held: int, now: float) -> None:
        """A request has left, and `held` of its endpoint still run here."""
        if endpoint_id in self._starved or (endpoint_id in self._hungry and held == 0):
            self._name(endpoint_id, now)

    def wait_seconds(self, *, running: int, now: float) -> float | None:
        """In how many seconds to claim, None where there is nothing to claim; `running` requests run here."""
        if not self._named:
            return None
        if running < BUSY or self._freed >= ENOUGH:
            return 0.0
        return max(self._since + GATHER_SECONDS - now, 0.0)

    def take(self) -> list[UUID]:
        """The endpoints to claim from now, those named first first."""
        taken, self._named = list(self._named), {}
        self._unheeded.difference_update(taken)
        self._freed = 0
        return taken

    def starve(self, endpoint_id: UUID) -> None:
        """There is no room here for anything of the endpoint: to be named once something ends."""
        self._hungry.add(endpoint_id)
        self._starved.add(endpoint_id)

    def claimed(self, endpoint_id: UUID, *, got: int, room: int, slots: int, held: int, now: float) -> None:
        """`got` requests were claimed into so many free slots, with room here for `room`; `held` run here now."""
        self._starved.discard(endpoint_id)
        if got >= min(room, slots) > 0:
            self._hungry.add(endpoint_id)
            if slots > got:  # the next claim fills more of them, and waits for nothing
                self._freed = ENOUGH
                self._name(endpoint_id, now)
            return
        if got == 0 and held > 0 and endpoint_id in self._hungry:
            return
        self._hungry.discard(endpoint_id)
        if endpoint_id in self._unheeded:
            self._unheeded.discard(endpoint_id)
            self._name(endpoint_id, now)

    def _name(self, endpoint_id: UUID, now: float) -> None:
        if not self._named:
            self._since = now
        self._named[endpoint_id] = None
