"""How the engine simulator spends its time and its cache."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deploy.engine_modules import Engine, Speed, Work, chain_of

SPEED = Speed(
    prefill_tokens_per_second=1000,
    step_seconds=0.1,
    decode_seconds=0.01,
    step_tokens=100,
    seats=4,
    block_tokens=10,
    blocks=100,
)


def work(key: object, prompt: int, output: int, beginning: str = "") -> Work:
    """A request; one character is a token here, and what follows the beginning is its own."""
    text = (beginning + f"<{key}>" * prompt)[:prompt]
    return Work(key, chain_of(text, SPEED.block_tokens), prompt, output)


def run(engine: Engine) -> tuple[float, dict[object, list[float]]]:
    """Step until nothing is left: how long it took, and when each request had its tokens."""
    now, times = 0.0, dict[object, list[float]]()
    while not engine.is_idle:
        seconds, tokens = engine.step()
        now += seconds
        for token in tokens:
            times.setdefault(token.key, []).append(now)
    return now, times


def test_a_prompt_takes_time_by_its_tokens_and_each_further_token_a_step() -> None:
    engine = Engine(SPEED)
    engine.add(work("a", prompt=50, output=3))
    _, times = run(engine)
    first = 0.1 + 50 / 1000 + 0.01
    assert times["a"] == pytest.approx([first, first + 0.11, first + 0.22])


def test_a_long_prompt_is_computed_over_several_steps() -> None:
    engine = Engine(SPEED)
    engine.add(work("a", prompt=250, output=1))
    assert [bool(engine.step()[1]) for _ in range(3)] == [False, False, True]


def test_the_beginning_of_an_earlier_prompt_is_not_computed_again() -> None:
    engine = Engine(SPEED)
    engine.add(work("a", prompt=90, output=1, beginning="x" * 80))
    run(engine)
    follow_up = work("b", prompt=90, output=1, beginning="x" * 80)
    engine.add(follow_up)
    took, _ = run(engine)
    assert follow_up.cached_tokens == 80
    assert took == pytest.approx(0.1 + 10 / 1000 + 0.01)
    assert (engine.totals.cache_queries, engine.totals.cache_hits) == (180, 80)


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    engine = Engine(SPEED)
    for key in "ab":
        engine.add(work(key, prompt=80, output=1, beginning="x" * 80))
        run(engine)
    assert engine.totals.cache_hits == 79


def test_decoding_slows_down_with_the_batch() -> None:
    times = []
    for count in (1, 4):
        engine = Engine(SPEED)
        for key in range(count):
            engine.add(work(key, prompt=1, output=20))
        times.append(run(engine)[0])
    assert times[0] < times[1] < 4 * times[0]


def test_no_more_requests_than_seats_are_in_the_batch() -> None:
    engine = Engine(SPEED)
    for key in range(6):
        engine.add(work(key, prompt=1, output=5))
    engine.step()
    assert (len(engine.running), len(engine.waiting)) == (4, 2)


def test_the_prompt_that_was_not_used_for_the_longest_time_is_forgotten_first() -> None:
    engine = Engine(SPEED)
    for key, beginning in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "z")):
        engine.add(work(key, prompt=405, output=1, beginning=beginning * 400))
        run(engine)
    again = {name: work(name, prompt=405, output=1, beginning=name * 400) for name in "xyz"}
    assert engine.cache.match(again["z"].chain) == 40
    assert engine.cache.match(again["x"].chain) == 40
    assert engine.cache.match(again["y"].chain) < 40


def test_when_the_cache_is_full_the_last_to_come_gives_way_and_still_ends() -> None:
    engine = Engine(SPEED)
    for key in range(3):
        engine.add(work(key, prompt=300, output=60))
    _, times = run(engine)
    assert engine.totals.preemptions > 0
    assert {key: len(found) for key, found in times.items()} == {0: 60, 1: 60, 2: 60}


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="1001 tokens"):
        Engine(SPEED).add(work("a", prompt=1000, output=1))


def test_an_aborted_request_gives_its_cache_and_seat_back() -> None:
    engine = Engine(SPEED)
    for key in range(6):
        engine.add(work(key, prompt=20, output=50))
    engine.step()
    for key in (0, 5, 99):
        engine.abort(key)
    engine.step()
    assert {each.key for each in engine.running} == {1, 2, 3, 4}
    assert engine.totals.aborted_requests == 2
    run(engine)
    assert engine.cache.in_use == 0


_requests = st.lists(st.tuples(st.integers(1, 200), st.integers(1, 40), st.sampled_from("xyz")), min_size=1, max_size=12)


@settings(deadline=None)
@given(_requests, st.integers(30, 100), st.sets(st.integers(0, 11)), st.integers(1, 20))
def test_every_request_ends_with_all_its_tokens_and_the_cache_is_never_overfull(
    requests: list[tuple[int, int, str]], blocks: int, aborted: set[int], abort_at: int
) -> None:
    engine = Engine(Speed(step_tokens=64, seats=4, block_tokens=10, blocks=blocks))
    for key, (prompt, output, letter) in enumerate(requests):
        engine.add(work(key, prompt, output, letter * 150))
    counts, ended, steps = Counter[object](), Counter[object](), 0
    while not engine.is_idle:
        steps += 1
        assert steps < 10_000
        seconds, tokens = engine.step()
        assert seconds > 0
        assert len(engine.cache) <= blocks
        assert len(engine.running) <= 4
        for token in tokens:
            counts[token.key] += 1
            assert token.number == counts[token.key]
            ended[token.key] += token.is_last
        if steps == abort_at:
            for key in aborted:
                engine.abort(key)
    assert engine.cache.in_use == 0
    for key, (_, output, _) in enumerate(requests):
        if key not in aborted:
            assert (counts[key], ended[key]) == (output, 1)
    assert engine.totals.generated == counts.total()
