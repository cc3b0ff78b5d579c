"""A variant's instances as the balancer sees them: worked out when the routing table changes, not with every call. Pure.

An instance that joins others starts slowly: its weight rises from a tenth to the whole. All those that were there when
the variant was first seen are taken to be warm; a fleet that is new as a whole has nobody to leave the calls to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.routing.health import ramp
from controlplane.routing.table import Target, VariantRoute
from controlplane.routing.weights import weight_of


@dataclass
class Pool:
    """The open instances of one variant, with their weights; `joined` has when those in their slow start came."""

    variant: VariantRoute
    targets: tuple[Target, ...]
    weights: tuple[float, ...]
    used_at: float
    joined: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._is_of_equals = len(set(self.weights)) <= 1

    @property
    def is_even(self) -> bool:
        """Whether all instances can carry the same, so that weights need not be looked at."""
        return self._is_of_equals and not self.joined

    def weights_at(self, now: float, slow_start_seconds: float) -> tuple[float, ...]:
        """The weight of each instance now; whoever has ended its slow start is forgotten as one that joined."""
        self.joined = {name: at for name, at in self.joined.items() if now - at < slow_start_seconds}
        if not self.joined:
            return self.weights
        return tuple(
            weight * ramp(now - self.joined[target.instance_id], slow_start_seconds)
            if target.instance_id in self.joined
            else weight
            for target, weight in zip(self.targets, self.weights, strict=True)
        )


def pool_of(variant: VariantRoute, before: Pool | None, type_weights: Mapping[str, float], now: float) -> Pool:
    """The pool of a variant that has changed since `before`, None = is seen for the first time."""
    targets = variant.open_targets
    weights = tuple(weight_of(type_weights, target.instance_type) for target in targets)
    joined = {} if before is None or not before.targets else _joined(targets, before, now)
    return Pool(variant, targets, weights, now, joined)


def _joined(targets: tuple[Target, ...], before: Pool, now: float) -> dict[str, float]:
    known = {target.instance_id for target in before.targets}
    names = [target.instance_id for target in targets]
    return {name: before.joined.get(name, now) for name in names if name not in known or name in before.joined}
