"""Whether a call is copied to a shadow variant. Pure; randomness is given.

A shadow's weight, over the production variant's, is the share of the calls that are copied: 0.5 beside 1 is every second
one, as much or more is every one. While a deployment runs, a revision's shadow counts by the revision's share of the calls.
"""

import random

from controlplane.routing.table import Route, VariantRoute


def shadow_of(route: Route, variant: VariantRoute, draw: random.Random) -> VariantRoute | None:
    """The shadow that gets a copy of a call to `variant`, if one does."""
    point = draw.random()
    for shadow in route.shadows:
        chance = shadow.share * copied_share(shadow.weight, variant.weight)
        if point < chance:
            return shadow
        point -= chance
    return None


def copied_share(shadow_weight: float, weight: float) -> float:
    """The share of the calls to a variant of this weight that a shadow of that weight gets copies of, 0 to 1."""
    if shadow_weight <= 0:
        return 0.0
    return 1.0 if weight <= shadow_weight else shadow_weight / weight
