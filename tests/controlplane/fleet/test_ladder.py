"""What the attempt ladder says of each offering."""

from datetime import timedelta

from controlplane.core.offerings import Search
from controlplane.fleet.ladder import State, Tries, key_of, steps
from tests.controlplane.fleet.test_walk import mark, offering
from tests.fakes.clock import START as NOW

LATER = NOW + timedelta(seconds=90)


def test_each_state_is_told_with_what_came_of_asking() -> None:
    asked = offering(0, mark=mark(90))
    tries = {key_of(asked): Tries(3, 1, 2, 0, NOW, "capacity", "no room")}
    search = Search((asked, offering(1, patience=600), offering(2)), short_since=NOW)
    tried, waiting, left = steps(search, tries, NOW, is_short=True)
    assert (tried.state, waiting.state, left.state) == (State.TRIED, State.WAITING, State.OPEN)
    assert "asked 3 times, 1 launched, 2 refused" in tried.sentence
    assert "capacity: no room" in tried.sentence
    assert tried.next_try_at == LATER
    assert waiting.next_try_at == NOW + timedelta(seconds=600)
    assert left.next_try_at == NOW
    assert "not asked" in left.sentence


def test_what_another_endpoint_met_is_skipped_without_having_been_asked() -> None:
    [step] = steps(Search((offering(0, mark=mark(90)),)), {}, NOW, is_short=True)
    assert step.state is State.SKIPPED
    assert "seen by other" in step.sentence


def test_of_offerings_that_are_all_closed_one_is_asked_when_the_back_off_ends() -> None:
    soon = NOW + timedelta(seconds=10)
    first, second = steps(
        Search((offering(0, mark=mark(90)), offering(1, mark=mark(600))), not_before=soon), {}, NOW, is_short=True
    )
    assert (first.next_try_at, first.is_anyway) == (soon, True)
    assert first.sentence.endswith("all the same, as nothing else is open")
    assert (second.next_try_at, second.is_anyway) == (NOW + timedelta(seconds=600), False)


def test_a_ceiling_has_no_next_try_and_a_back_off_puts_it_off() -> None:
    dear, cheap = steps(Search((offering(1), offering(0)), not_before=LATER, headroom=1.5), {}, NOW, is_short=True)[::-1]
    assert (dear.state, dear.next_try_at) == (State.SKIPPED, None)
    assert (cheap.state, cheap.next_try_at) == (State.OPEN, LATER)


def test_nothing_is_tried_while_nothing_is_missing() -> None:
    assert all(step.next_try_at is None for step in steps(Search((offering(0),)), {}, NOW, is_short=False))


def test_tries_of_another_zone_or_market_are_not_this_one_s() -> None:
    tries = {key_of(offering(0, zone="y")): Tries(asked=1)}
    [step] = steps(Search((offering(0, zone="z"),)), tries, NOW, is_short=True)
    assert step.tries.asked == 0
