"""Which instance a key belongs to."""

from collections import Counter
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.routing.rendezvous import Place, home, seat


def key(number: int) -> bytes:
    return blake2b(number.to_bytes(8, "big"), digest_size=16).digest()


def place(name: str, weight: float = 1.0, copies: int = 1) -> Place:
    return Place(name, weight, (name,) if copies == 1 else tuple(f"{name}/{number}" for number in range(copies)))


def fleet(count: int) -> list[Place]:
    return [place(f"i-{number}") for number in range(count)]


def idle(_: str) -> int:
    return 0


KEYS = [key(number) for number in range(4000)]


def test_keys_are_spread_evenly() -> None:
    counts = Counter(home(each, fleet(7)).instance_id for each in KEYS)
    assert all(abs(count / len(KEYS) - 1 / 7) < 0.02 for count in counts.values())


@pytest.mark.parametrize(("before", "after"), [(7, 8), (3, 4), (1, 2)])
def test_one_instance_more_takes_its_share_of_the_keys_and_no_other_moves(before: int, after: int) -> None:
    moved = [each for each in KEYS if home(each, fleet(before)) != home(each, fleet(after))]
    assert abs(len(moved) / len(KEYS) - 1 / after) < 0.02
    assert {home(each, fleet(after)).instance_id for each in moved} == {f"i-{after - 1}"}


@given(st.binary(min_size=16, max_size=16), st.sets(st.text(min_size=1, max_size=8), min_size=2, max_size=9), st.data())
def test_when_an_instance_goes_only_its_own_keys_move(each: bytes, names: set[str], data: st.DataObject) -> None:
    places = [place(name) for name in sorted(names)]
    gone = data.draw(st.sampled_from(places))
    left = [other for other in places if other is not gone]
    before = home(each, places)
    assert home(each, left) == before or before is gone


@given(st.binary(min_size=16, max_size=16), st.permutations(fleet(5)))
def test_the_order_of_the_instances_says_nothing(each: bytes, places: list[Place]) -> None:
    assert home(each, places) == home(each, fleet(5))


def test_an_instance_of_three_times_the_weight_gets_three_times_the_keys() -> None:
    counts = Counter(home(each, [place("a"), place("b", 3.0)]).instance_id for each in KEYS)
    assert counts["a"] / len(KEYS) == pytest.approx(0.25, abs=0.02)


@given(st.binary(min_size=16, max_size=16), st.floats(0.1, 1.0), st.floats(1.0, 10.0))
def test_a_weight_that_grows_only_takes_keys(each: bytes, light: float, heavy: float) -> None:
    others = fleet(4)
    before, after = (home(each, [*others, place("new", weight)]).instance_id for weight in (light, heavy))
    assert after in (before, "new")


# How many calls at once.


def test_the_first_call_over_the_threshold_goes_elsewhere_and_later_ones_come_back() -> None:
    places = fleet(3)
    own = home(KEYS[0], places).instance_id
    assert seat(KEYS[0], places, lambda copy: 1 if copy == own else 0, 2).instance_id == own
    assert seat(KEYS[0], places, lambda copy: 2 if copy == own else 0, 2).instance_id != own
    assert seat(KEYS[0], places, idle, 2).instance_id == own


def test_overflow_goes_where_there_is_the_most_room() -> None:
    places = fleet(3)
    own = home(KEYS[0], places).instance_id
    idler = next(each.instance_id for each in places if each.instance_id != own)
    calls = {each.instance_id: 5 for each in places} | {own: 9, idler: 1}
    assert seat(KEYS[0], places, calls.__getitem__, 9).instance_id == idler


def test_overflow_of_one_key_keeps_to_one_second_home_while_that_is_idle() -> None:
    own = home(KEYS[0], fleet(5)).instance_id
    chosen = {seat(KEYS[0], fleet(5), lambda copy: 9 if copy == own else 0, 2).instance_id for _ in range(20)}
    assert len(chosen) == 1


def test_a_second_copy_on_the_same_instance_comes_before_another_instance() -> None:
    places = [place("a", copies=2), place("b", copies=2)]
    first = seat(KEYS[0], places, idle, 1)
    second = seat(KEYS[0], places, lambda copy: int(copy == first.copy), 1)
    assert (second.instance_id, second.copy != first.copy) == (first.instance_id, True)
    third = seat(KEYS[0], places, lambda copy: int(copy.startswith(first.instance_id)), 1)
    assert third.instance_id != first.instance_id


_calls = st.dictionaries(st.sampled_from([f"i-{number}" for number in range(6)]), st.integers(0, 8))


@given(st.binary(min_size=16, max_size=16), st.integers(1, 6), _calls, st.integers(1, 5))
def test_it_never_refuses_and_never_overfills_while_there_is_room(
    each: bytes, count: int, calls: dict[str, int], threshold: int
) -> None:
    places = fleet(count)
    chosen = seat(each, places, lambda copy: calls.get(copy, 0), threshold)
    here = calls.get(chosen.copy, 0)
    loads = [calls.get(other.instance_id, 0) for other in places]
    if min(loads) < threshold:
        assert here < threshold
    else:
        assert here == min(loads)
    if calls.get(home(each, places).instance_id, 0) < threshold:
        assert chosen.instance_id == home(each, places).instance_id
