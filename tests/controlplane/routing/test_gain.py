"""What routing by the prompt's beginning gains, over simulated engines (contract, data plane 3.3 and 3.4)."""

import pytest

from tests.perf.prefix_world import Mix, Outcome, Speed, World, calls_of

INSTANCES, SEEN = 7, 5
MIX = Mix("long", 140, (2_000, 2_000), (SEEN,), (8, 8), (20, 40), rate=12.0)
CALLS = calls_of(MIX, seed=3)
STICKY = 1 - 1 / SEEN
BY_CHANCE = 1 - INSTANCES * (1 - (1 - 1 / INSTANCES) ** SEEN) / SEEN


def world(strategy: str) -> World:
    return World(strategy, MIX, INSTANCES, seed=3, speed=Speed(prefill_tokens_per_second=5_000))


@pytest.fixture(scope="module")
def by_chance() -> Outcome:
    return world("RANDOM").run(CALLS)


def test_by_chance_a_prompt_is_found_as_often_as_chance_has_it(by_chance: Outcome) -> None:
    assert by_chance.hit_rate == pytest.approx(BY_CHANCE, abs=0.04)


@pytest.mark.parametrize("strategy", ["PREFIX_AWARE", "KV_AWARE"])
def test_by_its_beginning_it_is_found_whenever_it_was_seen_before(strategy: str, by_chance: Outcome) -> None:
    outcome = world(strategy).run(CALLS)
    assert outcome.hit_rate == pytest.approx(STICKY, abs=0.02)
    assert outcome.quantile(0.5) < 0.3 * by_chance.quantile(0.5)
    assert outcome.quantile(0.9) < by_chance.quantile(0.9)


@pytest.mark.parametrize("strategy", ["PREFIX_AWARE", "KV_AWARE"])
def test_no_call_is_lost_while_the_fleet_grows_and_shrinks(strategy: str) -> None:
    site, end = world(strategy), CALLS[-1].at
    site.at(end / 3, lambda _: site.resize(INSTANCES + 1))
    site.at(end * 2 / 3, lambda _: site.resize(INSTANCES))
    outcome = site.run(CALLS)
    assert len(outcome.whole_calls) == len(outcome.first_tokens) == len(CALLS)
    assert outcome.hit_rate > 0.9 * STICKY
    assert site.balancer.in_flight.busy() == {}


@pytest.mark.parametrize("strategy", ["RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE"])
def test_a_run_can_be_repeated(strategy: str) -> None:
    first, second = (world(strategy).run(CALLS[:200]) for _ in range(2))
    assert first.first_tokens == second.first_tokens
