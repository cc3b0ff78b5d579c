"""Which offering a search asks next, and why the others are passed over."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.offerings import (
    Choice,
    Offering,
    Search,
    Standing,
    Wait,
    is_closed,
    is_out_after,
    ladder,
    next_offering,
    preference,
)
from tests.workers.fleet.worlds import NOW, ago, closed, half_open, mark, opened, pool


def priced(place: int, price: float | None, patience: float = 0.0) -> Offering:
    """An open offering with a price."""
    return replace(opened(place), pool=replace(pool(place), patience_seconds=patience), hourly_price=price)


def chosen(search: Search) -> Offering | None:
    """What is asked now, if anything."""
    choice = next_offering(search, NOW)
    return choice.offering if isinstance(choice, Choice) else None


def test_a_mark_holds_up_to_its_end_and_a_probe_for_as_long_as_it_may_take() -> None:
    assert is_closed(closed(0), NOW)
    assert not is_closed(Offering(pool(), "a", mark(until=NOW)), NOW)
    assert is_closed(half_open(0, is_probed=True), NOW)
    assert not is_closed(half_open(0, is_probed=True), NOW + timedelta(seconds=10))
    assert not is_closed(opened(0), NOW)


def test_a_smaller_priority_number_is_more_wanted_and_ties_go_by_place() -> None:
    pools = [pool(0, priority=2), pool(1, priority=1), pool(2, priority=1)]
    assert [each.position for each in sorted(pools, key=preference)] == [1, 2, 0]


def test_a_refusal_ends_the_walk_only_when_no_other_pool_is_open() -> None:
    assert is_out_after(Search((opened(0), closed(1))), opened(0), NOW)
    assert not is_out_after(Search((opened(0), opened(1))), opened(0), NOW)
    assert not is_out_after(Search((opened(0), half_open(1))), opened(0), NOW)


def test_what_a_ceiling_or_a_quota_rules_out_is_no_other_pool_to_turn_to() -> None:
    dear, full = priced(1, 9.0), replace(opened(2), hourly_price=1.0, room=0)
    search = Search((priced(0, 1.0), dear, full), headroom=5.0)
    assert [rung.standing for rung in ladder(search, NOW)] == [Standing.OPEN, Standing.TOO_DEAR, Standing.NO_QUOTA]
    assert is_out_after(search, priced(0, 1.0), NOW)


def test_what_was_only_just_refused_is_not_asked_again_at_once() -> None:
    just = replace(closed(0, marked=1.0), hourly_price=1.0)
    waiting = next_offering(Search((just, priced(1, 9.0)), headroom=5.0), NOW)
    assert isinstance(waiting, Wait)
    assert waiting.until == NOW + timedelta(seconds=4)
    a_while_ago = replace(closed(0, marked=5.0), hourly_price=1.0)
    assert chosen(Search((a_while_ago, priced(1, 9.0)), headroom=5.0)) == a_while_ago


def test_patience_keeps_the_dearer_pool_back_and_then_lets_it_be_asked() -> None:
    patient = priced(1, 10.0, patience=600.0)
    waiting = next_offering(Search((closed(0), patient), short_since=ago(599)), NOW)
    assert isinstance(waiting, Wait)
    assert waiting.until == NOW + timedelta(seconds=1)
    assert chosen(Search((closed(0), patient), short_since=ago(600))) == patient


def test_patience_without_a_better_pool_is_none() -> None:
    patient = priced(0, 1.0, patience=600.0)
    assert chosen(Search((patient,))) == patient


def test_while_patience_runs_the_marked_pool_is_not_hammered() -> None:
    search = Search((closed(0), priced(1, 1.0, patience=600.0)), short_since=NOW)
    found = next_offering(search, NOW)
    assert isinstance(found, Wait)
    assert found.until == NOW + timedelta(seconds=60), "the end of the mark comes before the end of patience"


def test_the_ceiling_rules_out_what_does_not_fit_and_what_has_no_price() -> None:
    search = Search((priced(0, 9.0), priced(1, None), priced(2, 5.0)), headroom=5.0)
    assert [rung.standing for rung in ladder(search, NOW)] == [Standing.TOO_DEAR, Standing.TOO_DEAR, Standing.OPEN]
    assert chosen(search) == search.offerings[2]
    assert chosen(replace(search, headroom=4.99)) is None


def test_a_ceiling_that_rules_out_the_better_pool_ends_the_patience_for_it() -> None:
    dear, patient = priced(0, 9.0), priced(1, 1.0, patience=600.0)
    assert chosen(Search((dear, patient), headroom=2.0)) == patient


def test_memory_alone_never_blocks_but_a_ceiling_does() -> None:
    assert chosen(Search((closed(0), closed(1, marked=120.0)))) == closed(1, marked=120.0)
    assert chosen(Search((replace(closed(0), hourly_price=3.0),), headroom=1.0)) is None


KINDS = {"open": opened, "closed": closed, "half": half_open}

offerings_of_any_kind = st.builds(
    lambda place, kind, price, patience: replace(
        KINDS[kind](place), pool=replace(pool(place), patience_seconds=patience), hourly_price=price
    ),
    st.integers(0, 4),
    st.sampled_from(list(KINDS)),
    st.none() | st.floats(0, 20),
    st.sampled_from([0.0, 60.0, 600.0]),
)
searches = st.builds(
    Search,
    st.lists(offerings_of_any_kind, min_size=1, max_size=5, unique_by=lambda each: each.pool.id).map(tuple),
    st.none() | st.integers(0, 900).map(ago),
    st.none() | st.integers(-60, 60).map(lambda seconds: NOW + timedelta(seconds=seconds)),
    st.none() | st.floats(0, 40),
)


@given(searches)
def test_a_search_asks_or_waits_for_a_time_to_come_and_never_asks_what_is_too_dear(search: Search) -> None:
    found = next_offering(search, NOW)
    if isinstance(found, Wait):
        assert found.until > NOW
        return
    if search.headroom is not None:
        assert found.offering.hourly_price is not None
        assert found.offering.hourly_price <= search.headroom + 1e-6
    rungs = ladder(search, NOW)
    standing = next(rung.standing for rung in rungs if rung.offering == found.offering)
    better = [rung for rung in rungs if preference(rung.offering.pool) < preference(found.offering.pool)]
    if standing in (Standing.OPEN, Standing.PROBE):
        assert all(rung.standing not in (Standing.OPEN, Standing.PROBE) for rung in better)
    assert found.is_probe is (standing is Standing.PROBE)


@pytest.mark.parametrize("marked_first", [True, False])
def test_an_offering_is_told_apart_by_its_market(marked_first: bool) -> None:
    marked, other = replace(closed(0), market="spot"), opened(0)
    assert chosen(Search((marked, other) if marked_first else (other, marked))) == other
