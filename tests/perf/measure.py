"""Counting what N workers get done in a while, and printing ratios."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

ROUND_SECONDS = 3.0
ROUNDS = 3


@dataclass(frozen=True)
class Rate:
    """Operations a second: the median of the rounds, and the rounds."""

    median: float
    rounds: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.median:8,.0f}/s  [{min(self.rounds):,.0f}-{max(self.rounds):,.0f}]"


def interleaved(rivals: dict[str, Callable[[], Callable[[], int]]], workers: int) -> dict[str, Rate]:
    """Let the rivals take turns in short rounds, each with `workers` threads that call its operation again and again.

    A rival is a function that makes, for one thread, the operation; the operation returns how many things it did.
    """
    made = {name: [make() for _ in range(workers)] for name, make in rivals.items()}
    rates: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(ROUNDS):
        for name, operations in made.items():
            rates[name].append(_round(operations))
    return {name: Rate(statistics.median(found), tuple(found)) for name, found in rates.items()}


def _round(operations: list[Callable[[], int]]) -> float:
    started = time.monotonic()
    deadline = started + ROUND_SECONDS

    def work(operation: Callable[[], int]) -> int:
        done = 0
        while time.monotonic() < deadline:
            done += operation()
        return done

    with ThreadPoolExecutor(len(operations)) as pool:
        done = sum(pool.map(work, operations))
    return done / (time.monotonic() - started)


def show(title: str, rates: dict[str, Rate], of: str, over: str) -> None:
    """Print the rates and the ratio of one to another."""
    print(f"\n{title}")
    for name, rate in rates.items():
        print(f"  {name:44} {rate}")
    print(f"  ratio {of} : {over} = {rates[of].median / rates[over].median:.2f}")
