"""Which calls a shadow gets copies of."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.shadows import copied_share, shadow_of
from controlplane.routing.table import Route, VariantRoute, decode, encode

DRAWS = 4000
WEIGHTS = st.floats(0, 1e6)


def route(*shadows: tuple[str, float, float], weight: float = 1.0) -> Route:
    """An endpoint with these shadows: name, weight, the share of their revision."""
    made = tuple(VariantRoute(name, weight, "RANDOM", (), share) for name, weight, share in shadows)
    return Route("e", "1", "one", "InService", True, None, (VariantRoute("main", weight, "RANDOM", ()),), made)


def share_of_copies(shown: Route, name: str) -> float:
    draw = random.Random(11)
    drawn = [shadow_of(shown, shown.variants[0], draw) for _ in range(DRAWS)]
    return sum(shadow is not None and shadow.name == name for shadow in drawn) / DRAWS


@pytest.mark.parametrize(
    ("shadow", "weight", "expected"), [(1.0, 1.0, 1.0), (0.5, 1.0, 0.5), (1.0, 4.0, 0.25), (3.0, 1.0, 1.0), (0.0, 1.0, 0.0)]
)
def test_the_share_is_the_shadows_weight_over_the_others(shadow: float, weight: float, expected: float) -> None:
    assert abs(share_of_copies(route(("new", shadow, 1.0), weight=weight), "new") - expected) < 0.03


def test_a_revision_that_is_being_rolled_out_counts_by_its_share() -> None:
    shown = route(("old", 1.0, 0.7), ("new", 0.5, 0.3))
    assert abs(share_of_copies(shown, "old") - 0.7) < 0.03
    assert abs(share_of_copies(shown, "new") - 0.15) < 0.03


def test_without_a_shadow_nothing_is_copied() -> None:
    assert share_of_copies(route(), "new") == 0


@given(shadow=WEIGHTS, weight=WEIGHTS)
def test_a_share_is_one(shadow: float, weight: float) -> None:
    assert 0 <= copied_share(shadow, weight) <= 1


def test_shadows_are_in_the_document() -> None:
    shown = route(("new", 0.5, 1.0))
    assert decode(encode(shown)) == shown
