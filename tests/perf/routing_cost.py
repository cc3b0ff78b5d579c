"""`python -m tests.perf.routing_cost`: what one decision costs, by strategy and fleet.

Processor time of one core, the best of several rounds: a machine that is busy with other things does not make it slower.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from controlplane.routing.balancer import Balancer
from controlplane.routing.engine_load import EngineLoad
from controlplane.routing.prefix import Ask
from controlplane.routing.table import PrefixAware, Target, VariantRoute
from tests.perf.prefix_world import STRATEGIES

FLEETS = (8, 64)
DECISIONS, ROUNDS = 500, 5
PREFIX_LENGTH = 4_096

_TEXT = "All in good time, and one thing after another. " * 700
CHAT = {"model": "m", "messages": [{"role": "system", "content": _TEXT}, {"role": "user", "content": "And now?"}]}
BODY = json.dumps(CHAT).encode()


@dataclass(frozen=True)
class Cost:
    """Microseconds for one decision."""

    strategy: str
    path: str
    by_fleet: tuple[float, ...]


def costs() -> Iterator[Cost]:
    """Each strategy on the native path, and on the OpenAI path where that makes a difference."""
    for strategy in STRATEGIES:
        looks_at_body = strategy.endswith("_AWARE")
        for path, is_chat in (("native", False), ("OpenAI", True))[: 1 + looks_at_body]:
            yield Cost(strategy, path, tuple(_cost(strategy, count, Ask(BODY, is_chat=is_chat)) for count in FLEETS))


def _cost(strategy: str, count: int, ask: Ask) -> float:
    targets = tuple(Target(str(UUID(int=number)), "127.0.0.1:1", "ml.g5.2xlarge", False) for number in range(count))
    variant = VariantRoute("main", 1.0, strategy, targets, prefix_aware=PrefixAware(PREFIX_LENGTH, 64))
    balancer = Balancer()
    for target in targets:
        balancer.scraped(target.instance_id, EngineLoad(0.0, running=2, usage=0.3))
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(DECISIONS):
            balancer.choose("endpoint", variant, ask, 0.0)
        best = min(best, time.process_time() - started)
    return best / DECISIONS * 1e6


def run() -> None:
    """Print the table."""
    print(f"\nOne routing decision, microseconds, a body of {len(BODY):,} bytes, PrefixLength {PREFIX_LENGTH:,}")
    print(f"  {'':36} " + " ".join(f"{count:>3} instances" for count in FLEETS))
    for cost in costs():
        print(f"  {cost.strategy:27} {cost.path:8} " + " ".join(f"{each:13.1f}" for each in cost.by_fleet))


if __name__ == "__main__":
    run()
