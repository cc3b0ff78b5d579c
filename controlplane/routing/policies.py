"""Choosing a variant by weight, and counting the calls that are under way. Pure; randomness is given.

The instance is chosen by `balancer`.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from controlplane.core.errors import ValidationError
from controlplane.routing.table import Route, VariantRoute


class InFlight:
    """Calls under way, by instance. A count is held by a context, so it can neither leak nor fall below zero.

    A call that no one frame holds from its begin to its end says `begin` and `end` itself, once each.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def at(self, instance_id: str) -> int:
        """Calls under way at this instance."""
        return self._counts.get(instance_id, 0)

    def busy(self) -> dict[str, int]:
        """All instances with calls under way."""
        return dict(self._counts)

    @contextmanager
    def call(self, instance_id: str) -> Iterator[None]:
        """Count one call for as long as the context lasts."""
        self.begin(instance_id)
        try:
            yield
        finally:
            self.end(instance_id)

    def begin(self, instance_id: str) -> None:
        """Count one call more."""
        self._counts[instance_id] = self._counts.get(instance_id, 0) + 1

    def end(self, instance_id: str) -> None:
        """Count one call less."""
        left = self._counts[instance_id] - 1
        if left:
            self._counts[instance_id] = left
        else:
            del self._counts[instance_id]


def choose_variant(route: Route, wanted: str | None, draw: random.Random) -> VariantRoute:
    """The wanted variant, whatever its weight; else one at random, by its share of the weights.

    Of two revisions of a variant each gets its share of the variant's calls, as long as it has an instance for them.
    """
    variants = [variant for variant in route.variants if variant.share > 0]
    if wanted is not None:
        variants = [variant for variant in variants if variant.name == wanted]
        if not variants:
            raise ValidationError(f"Variant {wanted} of endpoint {route.endpoint_name} not found.")
    if len(variants) == 1:
        return variants[0]
    heaviest = max((variant.weight for variant in variants), default=0.0)
    if wanted is None and heaviest <= 0:
        raise ValidationError(f"All variants of endpoint {route.endpoint_name} have the weight 0; name a TargetVariant.")
    able = [variant for variant in variants if variant.open_targets or not _has_able_twin(variant, variants)]
    weights = [1.0 if wanted else variant.weight / heaviest for variant in able]  # their sum is finite, whatever they are
    shares = [variant.share * weight for variant, weight in zip(able, weights, strict=True)]
    return draw.choices(able, shares)[0] if any(shares) else draw.choice(able)


def _has_able_twin(variant: VariantRoute, variants: Sequence[VariantRoute]) -> bool:
    """Whether another revision of this variant has an instance that takes calls."""
    return any(other.name == variant.name and other.open_targets for other in variants if other is not variant)
