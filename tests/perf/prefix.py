"""`python -m tests.perf.prefix [--picture FILE]`: what prefix-aware and cache-aware routing do to the first token.

Seven engines on a virtual clock (see `prefix_world`): prompts with long shared beginnings, and short chats. To beat are the
figures published for seven instances of a 70B model: hit rate 25 -> 82 %, P50 of the time to the first token -71..77 %,
P90 -33..37 %, each beside RANDOM. Then the same fleet grows to eight and shrinks to seven again under load.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.perf.prefix_picture import draw
from tests.perf.prefix_world import STRATEGIES, Mix, Outcome, Speed, World, calls_of, outcomes

INSTANCES = 7
SEED = 1
SPEED = Speed(blocks=250_000)
"""A cache that holds whatever an engine is sent in one run: what is lost, routing lost."""

LONG = Mix("8,000 shared tokens", 500, (8_000, 8_000), (5, 6, 6, 6), (20, 60), (100, 200), rate=8.0)
SHORT = Mix("short chats", 700, (300, 900), (5, 6, 6, 6), (10, 30), (60, 120), rate=30.0, prefix_length=1_024)
TIGHT = Mix("8,000 shared tokens, small caches", 500, (8_000, 8_000), (5, 6, 6, 6), (20, 60), (100, 200), rate=8.0)
TIGHT_SPEED = Speed(blocks=40_000)

Results = dict[str, Outcome]


def run(picture: Path | None) -> None:
    """Print the tables, and draw the picture if one is wanted."""
    found = {}
    for mix, speed in ((LONG, SPEED), (SHORT, SPEED), (TIGHT, TIGHT_SPEED)):
        found[mix.name] = dict(outcomes(mix, INSTANCES, SEED, speed))
        print("\n".join(table(mix, found[mix.name])), flush=True)
    print("\n".join(scale_event()))
    if picture is not None:
        picture.write_text(draw({name: results for name, results in found.items() if name != TIGHT.name}))
        print(f"\nPicture: {picture}")


def table(mix: Mix, results: Results) -> Iterator[str]:
    """One line for each strategy."""
    base = results["RANDOM"]
    seen = sum(mix.seen) / len(mix.seen)
    yield f"\n{mix.name}: {INSTANCES} engines, {mix.prefixes} beginnings seen {seen:g} times, {mix.rate:g} calls/s"
    yield f"  {'':27} {'hit rate':>8} {'P50 TTFT':>17} {'P90 TTFT':>17} {'share of an instance':>22}"
    for strategy in STRATEGIES:
        each = results[strategy]
        p50, p90 = (_beside(each.quantile(part), base.quantile(part)) for part in (0.5, 0.9))
        low, high = each.shares
        yield f"  {strategy:27} {each.hit_rate:8.1%} {p50:>17} {p90:>17} {low:13.1%} - {high:.1%}"


def _beside(value: float, base: float) -> str:
    return f"{value * 1000:,.0f} ms ({value / base - 1:+4.0%})"


def scale_event() -> Iterator[str]:
    """7 -> 8 -> 7 instances under the long load: how many beginnings go elsewhere, and whether a call is lost."""
    yield "\n7 -> 8 -> 7 instances under load"
    for strategy in ("PREFIX_AWARE", "KV_AWARE"):
        world, calls = World(strategy, LONG, INSTANCES, SEED, SPEED), calls_of(LONG, SEED)
        end = calls[-1].at
        world.balancer.slow_start_seconds = 0.0
        world.at(end / 3, lambda _, world=world: world.resize(INSTANCES + 1))  # type: ignore[misc]
        world.at(2 * end / 3, lambda _, world=world: world.resize(INSTANCES))  # type: ignore[misc]
        outcome = world.run(calls)
        first, second, third = (_homes(outcome, end * part / 3, end * (part + 1) / 3) for part in range(3))
        answered = f"{len(outcome.whole_calls):,} of {len(calls):,} calls answered"
        moves = f"moved by the growth {_moved(first, second):.1%}, away after the shrinking {_moved(first, third):.1%}"
        yield f"  {strategy:27} hit rate {outcome.hit_rate:.1%}, {moves}, {answered}"


def _homes(outcome: Outcome, start: float, end: float) -> dict[int, str]:
    """Where each beginning that was seen in a span of time went last."""
    return {prefix: name for at, prefix, name in outcome.visits if start <= at < end}


def _moved(before: dict[int, str], after: dict[int, str]) -> float:
    """Of the beginnings seen in both spans, the part that went elsewhere."""
    both = before.keys() & after.keys()
    return sum(before[prefix] != after[prefix] for prefix in both) / len(both)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.prefix", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--picture", type=Path, help="write an SVG picture here")
    run(parser.parse_args(sys.argv[1:]).picture)


if __name__ == "__main__":
    main()
