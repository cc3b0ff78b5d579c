"""Which of the instances that may hold a prompt is the best."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.cache_aware import LEAST_SPREAD, Holder, best_holders


def test_among_equals_the_one_that_holds_most_is_best() -> None:
    assert best_holders([Holder("a", 3, 0.5, 2), Holder("b", 5, 0.5, 2), Holder("c", 0, 0.5, 2)], 10) == ["b"]


def test_nobody_is_best_when_nobody_holds_anything() -> None:
    assert best_holders([Holder("a", 0, 0.1, 0), Holder("b", 0, 0.9, 9)], 10) == []
    assert best_holders([], 10) == []
    assert best_holders([Holder("a", 0, 0.0, 0)], 0) == []


def test_a_small_match_does_not_outweigh_a_much_idler_instance() -> None:
    assert best_holders([Holder("busy", 1, 0.7, 40), Holder("idle", 0, 0.1, 0)], 10) == ["idle"]


def test_a_whole_match_outweighs_a_few_calls_more() -> None:
    assert best_holders([Holder("holder", 10, 0.4, 6), Holder("idle", 0, 0.1, 0)], 10) == ["holder"]


def test_one_call_more_or_less_does_not_outweigh_half_a_prompt() -> None:
    assert best_holders([Holder("holder", 5, 0.2, 2), Holder("other", 0, 0.2, 1)], 10) == ["holder"]


def test_equal_scores_are_all_best() -> None:
    assert best_holders([Holder("a", 5, 0.2, 1), Holder("b", 5, 0.2, 1)], 10) == ["a", "b"]


_holders = st.lists(
    st.builds(Holder, st.uuids().map(str), st.integers(0, 10), st.floats(0, 1), st.floats(0, 500)), min_size=1, max_size=8
)


@given(_holders)
def test_whoever_is_best_is_not_beaten_in_everything(holders: list[Holder]) -> None:
    best = best_holders(holders, 10)
    assert bool(best) == any(holder.matched for holder in holders)
    for chosen in (holder for holder in holders if holder.instance_id in best):
        for other in holders:
            by_far = other.calls < chosen.calls - LEAST_SPREAD / 100
            assert not (other.matched > chosen.matched and other.usage < chosen.usage and by_far)
