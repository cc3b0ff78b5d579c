"""Where a call goes."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import ValidationError
from controlplane.routing.policies import InFlight, choose_variant
from controlplane.routing.table import Route, Target, VariantRoute

RANDOM = "RANDOM"
DRAW = random.Random(1)


def target(name: str, *, is_draining: bool = False) -> Target:
    return Target(name, f"127.0.0.1:{len(name)}", "ml.m5.large", is_draining)


def variant(name: str = "v", weight: float = 1.0, strategy: str = RANDOM, targets: str = "a") -> VariantRoute:
    """A variant with one target for each letter; capital ones drain."""
    rows = tuple(target(letter, is_draining=letter.isupper()) for letter in targets)
    return VariantRoute(name, weight, strategy, rows)


def route(*variants: VariantRoute) -> Route:
    return Route("id", "123456789012", "e", "InService", True, None, variants)


def shares(weights: dict[str, float], draws: int = 4000) -> Counter:
    """How often each variant is chosen."""
    rows = route(*(variant(name, weight) for name, weight in weights.items()))
    draw = random.Random(42)
    return Counter(choose_variant(rows, None, draw).name for _ in range(draws))


# A variant.


def test_variants_get_their_share_of_the_weights() -> None:
    counts = shares({"a": 1.0, "b": 3.0})
    assert counts["a"] / counts.total() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("weights", [{"a": 0.0, "b": 1.0}, {"b": 0.2, "a": 0.0}, {"a": 0.0, "b": 5e-324}])
def test_a_variant_of_weight_0_gets_nothing_by_chance(weights: dict[str, float]) -> None:
    assert shares(weights) == {"b": 4000}


def test_a_named_variant_gets_the_call_whatever_its_weight() -> None:
    rows = route(variant("a", 0.0), variant("b", 1.0))
    assert choose_variant(rows, "a", DRAW).name == "a"


def test_a_variant_that_does_not_exist_is_named_in_the_error() -> None:
    with pytest.raises(ValidationError, match="Variant nope"):
        choose_variant(route(variant()), "nope", DRAW)


def test_a_single_variant_gets_the_calls_even_with_weight_0() -> None:
    assert choose_variant(route(variant("a", 0.0)), None, DRAW).name == "a"


def test_weights_that_are_all_0_are_an_error_and_not_a_guess() -> None:
    with pytest.raises(ValidationError, match="weight 0"):
        choose_variant(route(variant("a", 0.0), variant("b", 0.0)), None, DRAW)


@given(st.lists(st.floats(0, allow_infinity=False), min_size=2, max_size=10).filter(any), st.integers())
def test_any_legal_weights_yield_a_variant_that_has_some(weights: list[float], seed: int) -> None:
    rows = route(*(variant(str(number), weight) for number, weight in enumerate(weights)))
    assert choose_variant(rows, None, random.Random(seed)).weight > 0


# Calls under way.


def test_calls_are_counted_while_they_last() -> None:
    in_flight = InFlight()
    with in_flight.call("a"), in_flight.call("a"), in_flight.call("b"):
        assert in_flight.busy() == {"a": 2, "b": 1}
    assert (in_flight.at("a"), in_flight.busy()) == (0, {})


def test_a_call_that_fails_is_no_longer_counted() -> None:
    in_flight = InFlight()
    with pytest.raises(ZeroDivisionError), in_flight.call("a"):
        raise ZeroDivisionError
    assert in_flight.busy() == {}


def test_what_was_reported_does_not_change_afterwards() -> None:
    in_flight = InFlight()
    with in_flight.call("a"):
        report = in_flight.busy()
    assert report == {"a": 1}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_counts_never_leak_and_never_fall_below_zero(steps: list[tuple[str, bool]]) -> None:
    in_flight, under_way = InFlight(), []
    for name, starts in steps:
        if starts or not under_way:
            call = in_flight.call(name)
            call.__enter__()
            under_way.append((name, call))
        else:
            under_way.pop(0)[1].__exit__(None, None, None)
        assert in_flight.busy() == Counter(name for name, _ in under_way)
    for _, call in under_way:
        call.__exit__(None, None, None)
    assert in_flight.busy() == {}
