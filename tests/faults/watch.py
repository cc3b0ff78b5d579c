"""Whether a launch was one too many, looked at the moment it has happened."""

from controlplane.endpoints.models import EndpointVariant
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import InstanceStage
from tests.crash.points import Reach
from workers.providers.simulated.world import World

_LEAVING = (InstanceStage.DRAINING, InstanceStage.TERMINATING, InstanceStage.TERMINATED)


class LaunchWatch:
    """Stands between a watched process and its faults.

    A worker that is paused after its intent was committed and before the provider heard of it may launch what meanwhile
    nobody wants: no control plane can prevent that, the orphan sweep ends it, so such a launch is excused.
    """

    def __init__(self, world: World, reach: Reach) -> None:
        self._world = world
        self._reach = reach
        self._pauses = 0
        self._was_paused: list[bool] = []
        self._excused: set[str] = set()
        self._seen: set[str] = set()
        self.surplus: list[str] = []

    def paused(self) -> None:
        """A worker stands still now."""
        self._pauses += 1

    def reach(self, boundary: str) -> None:
        """Look, then let the faults have their turn."""
        pauses = self._pauses
        if boundary == "after launch":
            self._look(self._was_paused.pop())
        self._reach(boundary)
        if boundary == "before launch":
            self._was_paused.append(self._pauses > pauses)

    def new_process(self) -> None:
        """Nobody is in the middle of a launch any more."""
        self._was_paused.clear()

    def _look(self, was_paused: bool) -> None:
        real = {row.token for row in self._world.live() if row.gone_at is None and row.exits_at is None}
        new, self._seen = real - self._seen, self._seen | real
        if was_paused:
            self._excused |= new
        leaving = set(Instance.objects.filter(stage__in=_LEAVING).values_list("token", flat=True))
        launched = LaunchAttempt.objects.filter(token__in=real - self._excused - leaving, replaces=None)
        for variant in EndpointVariant.objects.filter(attempts__token__in=new - self._excused, attempts__replaces=None):
            count = launched.filter(variant=variant).count()
            if count > variant.desired_count:
                self.surplus.append(f"{variant.endpoint.name} got its instance number {count} of {variant.desired_count}")
