"""What the provider really has, looked at after every launch, apart from what the control plane believes."""

from collections import defaultdict

from controlplane.fleet.models import Instance
from controlplane.fleet.states import LIVE_STAGES, InstanceStage
from tests.crash.points import Reach
from tests.crash.sites import Site

_LEAVING = (InstanceStage.DRAINING, InstanceStage.TERMINATING, InstanceStage.TERMINATED)


class Ledger:
    """Follows the real instances by token; `most` is how many there were at once that nobody had sent away."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._provider_ids: dict[str, set[str]] = defaultdict(set)
        self.most = 0

    def watching(self, reach: Reach) -> Reach:
        """`reach`, with a look at the truth after every launch."""

        def look_then_reach(boundary: str) -> None:
            if boundary == "after launch":
                self.look()
            reach(boundary)

        return look_then_reach

    def look(self) -> None:
        """Write down which instances there are now."""
        real = list(self._site.real())
        for each in real:
            self._provider_ids[each.token].add(each.provider_id)
        leaving = set(Instance.objects.filter(stage__in=_LEAVING).values_list("token", flat=True))
        self.most = max(self.most, len({each.token for each in real} - leaving))

    def live(self) -> list[str]:
        """The tokens of the real instances."""
        return sorted(each.token for each in self._site.real())

    def doubled(self) -> list[str]:
        """The tokens by which more than one instance was launched."""
        return [token for token, ids in self._provider_ids.items() if len(ids) > 1]

    def launched(self) -> int:
        """How many instances there ever were."""
        return sum(len(ids) for ids in self._provider_ids.values())

    def disagreement(self) -> str:
        """How the real instances and the stored ones differ; empty when they do not."""
        real = set(self.live())
        stored = set(Instance.objects.filter(stage__in=LIVE_STAGES).values_list("token", flat=True))
        return "" if real == stored else f"leaked {sorted(real - stored)}, imagined {sorted(stored - real)}"
