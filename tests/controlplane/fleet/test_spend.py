"""What instances have cost, from launch to end."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.spend import Spend, Stay, by_pool, spend_of, total
from tests.fakes.clock import START as NOW


def stay(hours: float, ended: float | None = None, price: float | None = 2.0, **facts: str) -> Stay:
    """An instance launched so many hours ago, ended so many hours ago."""
    end = None if ended is None else NOW - timedelta(hours=ended)
    named = {"variant": "v", "instance_type": "ml.a", "market": "on-demand", **facts}
    return Stay(**named, hourly_price=price, launched_at=NOW - timedelta(hours=hours), ended_at=end)


def test_a_running_instance_costs_from_its_launch_whatever_it_does() -> None:
    assert spend_of(stay(3), NOW) == Spend(3.0, 6.0, 0.0, 1, 2.0)


def test_an_ended_one_costs_up_to_its_end() -> None:
    assert spend_of(stay(3, ended=1), NOW) == Spend(2.0, 4.0, 0.0, 0, 0.0)


def test_hours_without_a_known_price_are_counted_and_said() -> None:
    found = spend_of(stay(3, price=None), NOW)
    assert (found.hours, found.dollars, found.unpriced_hours) == (3.0, 0.0, 3.0)
    assert "no known price" in str(found)


def test_a_clock_that_jumped_back_costs_nothing() -> None:
    assert spend_of(stay(-1), NOW).hours == 0.0


def test_lines_are_by_variant_type_and_market() -> None:
    stays = [stay(1), stay(1, market="spot", price=0.5), stay(1, variant="w"), stay(2)]
    lines = by_pool(stays, NOW)
    assert [(line.variant, line.market, line.spend.dollars) for line in lines] == [
        ("v", "on-demand", 6.0),
        ("v", "spot", 0.5),
        ("w", "on-demand", 2.0),
    ]
    assert total(lines).dollars == 8.5
    assert total([]) == Spend()


@given(st.lists(st.tuples(st.floats(0, 1000), st.none() | st.floats(0, 1000), st.none() | st.floats(0, 50))))
def test_the_lines_add_up_and_spend_never_shrinks(parts: list[tuple[float, float | None, float | None]]) -> None:
    stays = [stay(hours, ended, price) for hours, ended, price in parts]
    whole = total(by_pool(stays, NOW))
    assert whole.dollars == pytest.approx(sum(spend_of(each, NOW).dollars for each in stays))
    assert total(by_pool(stays, NOW + timedelta(hours=1))).dollars >= whole.dollars
