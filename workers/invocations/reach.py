"""Which instances could not be reached lately, so that others are asked first. Pure.

                one connection that cannot be made
    asked ---------------------------------------------> shunned for 5 s, then 10, 20 ... at most 60
      ^                                                    |
      |      the time is over: the next failure shuns it   |
      +----- for longer, a success is the end of it -------+

An instance that is shunned is claimed for only where every open instance of its endpoint is, and then the one whose last
failure is the longest ago. The gateways wait for several failures before they do as much (`routing.health`): there a
caller waits, who may be passed on at once, while here the request would come back to the same door every second or so.
What one dispatcher finds out it tells the others, in a notification.
"""

from dataclasses import dataclass
from uuid import UUID

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0

NOTICE = "unreached "
"""What the notification says before the instance's id."""


@dataclass(frozen=True)
class _Shunned:
    """Until when (monotonic), and for the how manieth time in a row."""

    until: float
    times: int


class Reach:
    """What one dispatcher knows of the instances; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._shunned: dict[UUID, _Shunned] = {}

    def failed(self, instance_id: UUID, now: float) -> float:
        """No connection to it could be made; for so many seconds others are asked first.

        Of those that were under way to it when it was shunned none makes it longer.
        """
        self._forget(now)
        known = self._shunned.pop(instance_id, None)  # put back as the one that failed last
        if known is None or known.until <= now:
            times = known.times + 1 if known else 1
            known = _Shunned(now + shun_seconds(times), times)
        self._shunned[instance_id] = known
        return known.until - now

    def succeeded(self, instance_id: UUID) -> None:
        """It was reached."""
        self._shunned.pop(instance_id, None)

    def shunned(self, now: float) -> list[UUID]:
        """The instances that are not to be asked where there is another, those that failed last last."""
        return [instance_id for instance_id, each in self._shunned.items() if each.until > now]

    def _forget(self, now: float) -> None:
        """Let go of those that nobody has failed to reach for a while: most of them are gone."""
        gone = [instance_id for instance_id, each in self._shunned.items() if each.until + LONGEST_SECONDS <= now]
        for instance_id in gone:
            del self._shunned[instance_id]


def shun_seconds(times: int) -> float:
    """How long an instance is shunned that could not be reached for the `times`th time in a row, 1 or more."""
    return float(min(FIRST_SECONDS * 2 ** min(times - 1, 16), LONGEST_SECONDS))
