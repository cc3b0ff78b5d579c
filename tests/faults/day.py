"""`python -m tests.faults.day`: a day of faults in minutes, under a steady load.

Exit code 1 when a call was lost that need not be, or was sent twice.

    quiet, an instance dies, one stands still, one talks nonsense, the database is away, and one dies meanwhile, quiet

A call may be lost only where the failing instance had been sent it: nobody can tell then whether it ran, and it is never
sent twice. The gateway and the database cost no call at all: without its database the gateway serves from its last table,
whose age it tells.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.routing.health import FAILURES_LIMIT
from tests.contract.waiting import moving
from tests.faults.hurt import database_away, told_age, victims, wait_seconds
from tests.faults.traffic import CALLERS, Call, Traffic, steady
from tests.system.stack import Stack, create_endpoint, delete_endpoint, in_service

ENDPOINT = "day"
INSTANCES = 4
ENVIRONMENT = {"HEADRACE_INVOCATION_TIMEOUT_SECONDS": "2", "HEADRACE_STREAM_TIMEOUT_SECONDS": "4"}
SETTLE_SECONDS = 4.5
"""Longer than the longest call: what ends later has begun later."""

MOST_AWAY = 3.0
"""The database is away for so many times its hours at most, if the gateway does not tell of its table's age before."""

UNDER_WAY = CALLERS
"""At most so many calls are at an instance when it fails, and at all of them when the whole machine stands still."""

MOMENT_SECONDS = 0.5
"""With what a step may take (`moving`) less than a call may: a machine that stood still no longer has cost none."""


@dataclass(frozen=True)
class Hours:
    """How long each part of the day lasts, in seconds; `is_replaced`: whether the instance that stands still does so until
    others have taken its place."""

    quiet: float
    still: float
    nonsense: float
    away: float
    is_replaced: bool = False


SHORT = Hours(quiet=1.0, still=4.0, nonsense=2.0, away=11.0)
LONG = Hours(quiet=10.0, still=0.0, nonsense=20.0, away=60.0, is_replaced=True)


@dataclass(frozen=True)
class Part:
    """A part of the day: its calls, and how many of them may be lost."""

    name: str
    calls: tuple[Call, ...]
    most_lost: int

    @property
    def lost(self) -> list[Call]:
        return [call for call in self.calls if call.lost]

    def __str__(self) -> str:
        kinds = Counter("streams cut" if call.has_begun else "answers never begun" for call in self.lost)
        lost = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"
        return f"{self.name:45} {len(self.calls):6,} calls   lost: {lost} (at most {self.most_lost})"


@dataclass
class Outcome:
    """What the day came to."""

    parts: list[Part] = field(default_factory=list)
    told_age: int = 0
    away_seconds: float = 0.0
    doubled: list[str] = field(default_factory=list)

    @property
    def calls(self) -> list[Call]:
        return [call for part in self.parts for call in part.calls]

    @property
    def needlessly_lost(self) -> list[Call]:
        """Calls that were lost though no instance had been sent them, and parts of the day that lost too many."""
        too_many = [call for part in self.parts if len(part.lost) > part.most_lost for call in part.lost]
        return [call for call in self.calls if call.lost and not call.was_sent] + too_many


class Day:
    """One day over one Headrace."""

    def __init__(self, stack: Stack, hours: Hours) -> None:
        self._stack = stack
        self._hours = hours
        self._journal = stack.data_dir / "day.jsonl"
        self._lost_at = 0.0
        self._standing: Callable[[], float] = lambda: 0.0
        self._stood = 0.0
        self.outcome = Outcome()

    def live(self) -> Outcome:
        """Live through it, on an endpoint of its own."""
        environment = {"CHAOS_SINK": str(self._journal)}
        routing = {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}
        create_endpoint(self._stack, ENDPOINT, count=INSTANCES, environment=environment, variant=routing)
        in_service(self._stack, ENDPOINT)
        with steady(self._stack, ENDPOINT) as traffic, moving() as passed:
            began = time.monotonic()
            self._standing = lambda: time.monotonic() - began - passed()
            self._pass(traffic)
        delete_endpoint(self._stack, ENDPOINT)
        self.outcome.doubled = self._doubled()
        return self.outcome

    def _pass(self, traffic: Traffic) -> None:
        hours = self._hours
        with self._part(traffic, "quiet", 0):
            wait_seconds(hours.quiet)
        with self._part(traffic, "an instance dies in the midst of its calls", UNDER_WAY):
            victims(self._stack)[0].die()
            self._heal()
        with self._part(traffic, "an instance stands still", UNDER_WAY + FAILURES_LIMIT):
            self._stand_still()
        with self._part(traffic, "an instance talks nonsense", UNDER_WAY + FAILURES_LIMIT):
            self._talk_nonsense()
        with database_away(self._stack):
            self._lose_database(traffic)
        with self._part(traffic, "the database comes back", 0):
            self._heal()
        self.outcome.away_seconds = time.monotonic() - self._lost_at
        with self._part(traffic, "quiet again", 0):
            wait_seconds(hours.quiet)

    def _stand_still(self) -> None:
        victim = victims(self._stack)[0]
        with victim.standing_still():
            if self._hours.is_replaced:
                self._stack.wait(lambda: not victim.directory.is_alive or victim.directory.is_stopping, 120)
            else:
                wait_seconds(self._hours.still)
        self._heal()

    def _talk_nonsense(self) -> None:
        with victims(self._stack)[-1].talking_nonsense():
            wait_seconds(self._hours.nonsense)

    def _lose_database(self, traffic: Traffic) -> None:
        """First nothing else happens; then an instance dies whom nobody can take out of the table."""
        self._lost_at = time.monotonic()
        with self._part(traffic, "the database is away", 0):
            while (away := time.monotonic() - self._lost_at) < self._hours.away or not self.outcome.told_age:
                self.outcome.told_age = max(self.outcome.told_age, told_age(self._stack))
                if away > MOST_AWAY * self._hours.away:
                    break
                wait_seconds(0.5)
        with self._part(traffic, "the database is away, and an instance dies", UNDER_WAY):
            victims(self._stack)[0].die()

    def _heal(self) -> None:
        """Until all instances serve again."""
        self._stack.wait(lambda: self._stack.is_ready, 60)
        self._stack.wait(lambda: len(victims(self._stack)) == INSTANCES, 120)
        in_service(self._stack, ENDPOINT)

    @contextmanager
    def _part(self, traffic: Traffic, name: str, most_lost: int) -> Iterator[None]:
        """A part of the day, with the calls that end until it has settled.

        Those that were under way when the whole machine stood still, then or in the part before, may be lost as well.
        """
        started = time.monotonic()
        stood, self._stood = self._stood, self._standing()
        yield
        wait_seconds(SETTLE_SECONDS if most_lost else 0.5)
        ended = time.monotonic()
        calls = tuple(call for call in list(traffic.calls) if started <= call.ended < ended)
        excused = UNDER_WAY if self._standing() - stood > MOMENT_SECONDS else 0
        self.outcome.parts.append(Part(name, calls, most_lost + excused))

    def _doubled(self) -> list[str]:
        """Ids of calls that reached a container more than once."""
        lines = map(json.loads, self._journal.read_text().splitlines())
        seen = Counter(line["inference_id"] for line in lines if line["event"] == "received")
        return [name for name, count in seen.items() if count > 1 and name]


def main() -> int:
    """Start, live through the day, count."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.day", description=__doc__)
    parser.add_argument("--short", action="store_true", help="the minute that the tests have")
    options = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-day-"))
    data_dir.chmod(0o755)
    stack = Stack(data_dir, **ENVIRONMENT)
    print("Starting Headrace...", flush=True)
    try:
        stack.start()
        outcome = Day(stack, SHORT if options.short else LONG).live()
    finally:
        stack.stop()
        shutil.rmtree(data_dir, ignore_errors=True)
    report(outcome)
    return 1 if outcome.needlessly_lost or outcome.doubled else 0


def report(outcome: Outcome) -> None:
    """Print what it came to."""
    for part in outcome.parts:
        print(f"  {part}")
    print(f"  /readyz told of a table {outcome.told_age} s old")
    print(f"  all was well again {outcome.away_seconds:.0f} s after the database went")
    lost = [call for call in outcome.calls if call.lost]
    print(f"  {len(outcome.calls):,} calls; lost: {len(lost)}, of them needlessly: {len(outcome.needlessly_lost)}", end="")
    print(f"; sent twice: {len(outcome.doubled)}")
    for call in outcome.needlessly_lost:
        print(f"    {call}")


if __name__ == "__main__":
    sys.exit(main())
