"""Where a call goes, by the variant's strategy and by what is known of the instances."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import ServiceUnavailable
from controlplane.routing.balancer import FORGET_SECONDS, SWEEP_SECONDS, Balancer
from controlplane.routing.engine_load import STALE_SECONDS, EngineLoad
from controlplane.routing.health import FAILURES_LIMIT, FIRST_OUT_SECONDS
from controlplane.routing.policies import InFlight
from controlplane.routing.prefix import Ask
from controlplane.routing.table import PrefixAware, Target, VariantRoute

LEAST, RANDOM, PREFIX, KV = "LEAST_OUTSTANDING_REQUESTS", "RANDOM", "PREFIX_AWARE", "KV_AWARE"
ALL = (LEAST, RANDOM, PREFIX, KV)
NOBODY = Ask()


def target(name: str, instance_type: str = "ml.m5.large") -> Target:
    return Target(name, f"127.0.0.1:{ord(name[0])}", instance_type, name.isupper())


def variant(strategy: str, names: str = "abc", threshold: int = 2) -> VariantRoute:
    """A variant with one target for each letter; capital ones drain."""
    return VariantRoute("v", 1.0, strategy, tuple(map(target, names)), prefix_aware=PrefixAware(1024, threshold))


def balancer(calls: dict[str, int] | None = None, **changes: object) -> Balancer:
    """A balancer with so many calls under way."""
    in_flight = InFlight()
    for name, count in (calls or {}).items():
        begin(in_flight, name, count)
    return Balancer(in_flight, random.Random(7), **changes)  # type: ignore[arg-type]


def begin(in_flight: InFlight, name: str, count: int) -> None:
    """Let calls begin that never end: the counts hold on to their contexts."""
    under_way = [in_flight.call(name) for _ in range(count)]
    for call in under_way:
        call.__enter__()
    in_flight.under_way = [*getattr(in_flight, "under_way", []), *under_way]  # type: ignore[attr-defined]


def pick(made: Balancer, row: VariantRoute, ask: Ask = NOBODY, now: float = 0.0, avoid: str = "") -> str:
    return made.choose("e", row, ask, now, tuple(map(target, avoid))).instance_id


def spread(made: Balancer, row: VariantRoute, now: float = 0.0, draws: int = 3000) -> Counter[str]:
    """Where calls of as many different prompts go, none of them under way."""
    return Counter(pick(made, row, Ask(b"%d" % number), now) for number in range(draws))


def chat(text: str) -> Ask:
    return Ask(json.dumps({"messages": [{"role": "user", "content": text}]}).encode(), is_chat=True)


# RANDOM and LEAST_OUTSTANDING_REQUESTS.


def test_random_spreads_over_all_open_instances() -> None:
    counts = spread(balancer(), variant(RANDOM, "abcD"))
    assert set(counts) == set("abc")
    assert min(counts.values()) > 850


def test_least_outstanding_takes_the_instance_with_the_fewest_calls() -> None:
    assert pick(balancer({"a": 3, "b": 1, "c": 2}), variant(LEAST)) == "b"


def test_least_outstanding_draws_among_equals() -> None:
    made = balancer({"a": 1})
    assert {pick(made, variant(LEAST)) for _ in range(50)} == {"b", "c"}


def test_an_idle_draining_instance_is_passed_over_for_a_busy_one() -> None:
    assert pick(balancer({"a": 99}), variant(LEAST, "aB")) == "a"


@pytest.mark.parametrize("strategy", ALL)
def test_a_second_try_goes_elsewhere(strategy: str) -> None:
    made, row = balancer(), variant(strategy, "ab")
    first = pick(made, row)
    assert pick(made, row, avoid=first) != first


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize(("names", "avoid"), [("", ""), ("A", ""), ("AB", ""), ("a", "a")])
def test_without_an_open_instance_the_variant_is_unavailable(strategy: str, names: str, avoid: str) -> None:
    with pytest.raises(ServiceUnavailable, match="Variant v"):
        pick(balancer(), variant(strategy, names), avoid=avoid)


_calls = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5))


@given(
    st.sampled_from(ALL),
    st.text("abcdefGH", min_size=1, max_size=6).filter(lambda names: len(set(names)) == len(names)),
    _calls,
    st.lists(st.sampled_from("abcdef"), max_size=20),
    st.binary(max_size=50),
)
def test_only_an_open_instance_is_ever_chosen(
    strategy: str, names: str, calls: dict[str, int], failures: list[str], body: bytes
) -> None:
    made = balancer(calls)
    for name in failures:
        made.failed(name, 0.0)
    is_open = {name for name in names if name.islower()}
    if is_open:
        assert pick(made, variant(strategy, names), Ask(body)) in is_open


@given(_calls)
def test_least_outstanding_never_takes_more_than_the_fewest(calls: dict[str, int]) -> None:
    chosen = pick(balancer(calls), variant(LEAST, "abcdef"))
    assert calls.get(chosen, 0) == min(calls.get(name, 0) for name in "abcdef")


# Instances that can carry more than others.

WEIGHTS = {"big": 3.0}


def mixed(strategy: str) -> VariantRoute:
    return replace(variant(strategy), targets=(target("a"), target("b", "big")))


@pytest.mark.parametrize("strategy", [RANDOM, PREFIX])
def test_an_instance_of_three_times_the_weight_gets_three_times_the_calls(strategy: str) -> None:
    counts = spread(balancer(type_weights=WEIGHTS), mixed(strategy))
    assert counts["b"] / counts.total() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(("calls", "expected"), [({"a": 1, "b": 4}, "b"), ({"a": 1, "b": 6}, "a"), ({}, "b")])
def test_least_outstanding_counts_calls_for_each_unit_of_weight(calls: dict[str, int], expected: str) -> None:
    assert pick(balancer(calls, type_weights=WEIGHTS), mixed(LEAST)) == expected


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.integers(0, 30), st.integers(0, 30))
def test_nobody_would_carry_less_for_its_weight_than_the_one_that_is_chosen(
    one: float, two: float, calls_a: int, calls_b: int
) -> None:
    made = balancer({"a": calls_a, "b": calls_b}, type_weights={"ml.m5.large": one, "big": two})
    carried = {"a": (calls_a + 1) / one, "b": (calls_b + 1) / two}
    assert carried[pick(made, mixed(LEAST))] == min(carried.values())


# A slow start.


def test_a_newcomer_gets_few_calls_at_first_and_its_share_in_the_end() -> None:
    made = balancer(slow_start_seconds=30.0)
    pick(made, variant(RANDOM, "abc"), now=100.0)
    grown = variant(RANDOM, "abcd")
    shares = [spread(made, grown, now)["d"] / 3000 for now in (101.0, 116.0, 131.0)]
    assert shares[0] < 0.08 < shares[1] < shares[2]
    assert shares[2] == pytest.approx(0.25, abs=0.03)


def test_a_newcomer_without_calls_is_not_flooded_by_least_outstanding() -> None:
    made = balancer({"a": 4, "b": 4})
    pick(made, variant(LEAST, "ab"))
    assert pick(made, variant(LEAST, "abc"), now=1.0) != "c"
    assert pick(made, variant(LEAST, "abc"), now=60.0) == "c"


def test_a_fleet_that_is_new_as_a_whole_starts_at_once() -> None:
    counts = spread(balancer(), variant(RANDOM, "abc"))
    assert min(counts.values()) > 850


def test_prefixes_that_move_to_a_newcomer_move_once() -> None:
    made = balancer(slow_start_seconds=30.0)
    asks = [Ask(b"%d" % number) for number in range(500)]
    before = [pick(made, variant(PREFIX, "abc"), ask) for ask in asks]
    grown, moved = variant(PREFIX, "abcd"), set[int]()
    for now in (0.0, 10.0, 20.0, 30.0, 40.0):
        chosen = [pick(made, grown, ask, now) for ask in asks]
        assert all(each in (earlier, "d") for earlier, each in zip(before, chosen, strict=True))
        here = {place for place, each in enumerate(chosen) if each == "d"}
        assert moved <= here
        moved = here
    assert len(moved) / len(asks) == pytest.approx(0.25, abs=0.06)


# Ejection.


def eject(made: Balancer, name: str, now: float = 0.0) -> None:
    assert [made.failed(name, now) for _ in range(FAILURES_LIMIT)][-1]


@pytest.mark.parametrize("strategy", ALL)
def test_an_instance_that_fails_gets_no_calls_for_a_while(strategy: str) -> None:
    made, row = balancer(), variant(strategy)
    spread(made, row, draws=50)
    eject(made, "a")
    assert set(spread(made, row, 1.0, 200)) == {"b", "c"}
    assert set(spread(made, row, FIRST_OUT_SECONDS, 200)) == {"a", "b", "c"}


@pytest.mark.parametrize("strategy", ALL)
def test_the_last_instance_is_never_ejected(strategy: str) -> None:
    made = balancer()
    for name in "abc":
        eject(made, name)
    assert pick(made, variant(strategy)) in "abc"
    assert pick(made, variant(strategy, "a")) == "a"


def test_an_answer_brings_it_back() -> None:
    made, row = balancer(), variant(RANDOM)
    eject(made, "a")
    made.succeeded("a", 1.0)
    assert "a" in spread(made, row, 1.0, 200)


# PREFIX_AWARE.


def test_prompts_that_begin_alike_go_to_one_instance() -> None:
    made, row = balancer(), variant(PREFIX, "abcdefg")
    asks = [Ask(b"x" * 1024 + b"%d" % number) for number in range(50)]
    assert len({pick(made, row, ask) for ask in asks}) == 1


def test_prompts_that_differ_are_spread() -> None:
    assert len(spread(balancer(), variant(PREFIX, "abcdefg"), draws=200)) == 7


def test_above_the_threshold_a_call_goes_elsewhere_and_the_next_comes_back() -> None:
    row = variant(PREFIX, threshold=2)
    own = pick(balancer(), row, Ask(b"p"))
    assert pick(balancer({own: 1}), row, Ask(b"p")) == own
    assert pick(balancer({own: 2}), row, Ask(b"p")) != own
    assert pick(balancer({"a": 2, "b": 2, "c": 2}), row, Ask(b"p")) in "abc"


# KV_AWARE.


def warm(made: Balancer, names: str = "abc", now: float = 0.0, **changes: float) -> None:
    for name in names:
        made.scraped(name, EngineLoad(now, **changes))  # type: ignore[arg-type]


def test_a_prompt_goes_where_its_beginning_was_sent() -> None:
    made, row = balancer(), variant(KV)
    warm(made)
    first = pick(made, row, chat("a long beginning " * 100))
    follow = [pick(made, row, chat("a long beginning " * 100 + f"and question {number}")) for number in range(10)]
    assert set(follow) == {first}


def test_a_holder_that_is_saturated_is_passed_over() -> None:
    made, row = balancer(), variant(KV)
    warm(made)
    first = pick(made, row, chat("a long beginning " * 100))
    warm(made, first, waiting=9)
    assert pick(made, row, chat("a long beginning " * 100)) != first


def test_without_fresh_loads_it_goes_by_the_calls_under_way() -> None:
    made, row = balancer({"a": 2, "b": 2}), variant(KV)
    assert pick(made, row, chat("x" * 1000)) == "c"
    warm(made)
    begin(made.in_flight, "c", 3)
    assert pick(made, row, chat("x" * 1000)) == "c"
    assert pick(made, row, chat("x" * 1000), now=STALE_SECONDS + 1) in "ab"


def test_a_prompt_that_nobody_holds_goes_to_the_idlest() -> None:
    made = balancer({"a": 3, "b": 1, "c": 2})
    warm(made)
    assert pick(made, variant(KV), chat("y" * 1000)) == "b"


def test_the_index_follows_the_size_of_the_engines_cache() -> None:
    made, row = balancer(), variant(KV, "a")
    made.scraped("a", EngineLoad(0.0, cache_tokens=64 * 4))
    for number in range(10):
        pick(made, row, Ask(bytes([number]) * 2000))
    assert len(made._caches["a"]) == 4


# What is remembered.


def test_an_engine_that_falls_silent_has_no_load() -> None:
    made = balancer()
    warm(made)
    made.scraped("a", None)
    assert set(made.loads) == {"b", "c"}


def test_instances_of_variants_that_are_called_are_scraped_and_no_others() -> None:
    made = balancer()
    pick(made, variant(KV, "abC"), now=0.0)
    made.choose("other", variant(RANDOM, "xyz"), NOBODY, 0.0)
    assert {each.instance_id for each in made.cache_aware_targets(10.0, 30.0)} == {"a", "b"}
    assert made.cache_aware_targets(31.0, 30.0) == []


def test_what_is_gone_is_forgotten() -> None:
    made = balancer()
    made.choose("old", variant(KV, "xy"), chat("z" * 500), 0.0)
    warm(made, "xy")
    eject(made, "x")
    pick(made, variant(KV, "a"), now=FORGET_SECONDS + SWEEP_SECONDS)
    assert (made.loads, made._health, set(made._caches), len(made._pools)) == ({}, {}, {"a"}, 1)
