"""One run of the chaos: traffic and killings together, then peace until everything has an outcome, then the audit."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from botocore.credentials import Credentials

from controlplane.core import clock
from tests.chaos.audit import ENDED, Audit, audit
from tests.chaos.killings import Killings, SecondWorker, journal
from tests.chaos.traffic import Traffic
from tests.system.stack import Stack, create_endpoint, in_service

ENDPOINT, BUCKET = "chaos", "chaos"
INSTANCES = 2
AT_ONCE = 32
"""Calls at once on each instance."""

PEACE_SECONDS = 1200.0
LEFT_IN_PEACE = 0.05
"""The killings end when so much of the work is left: what they did to the last requests has to be mended too."""

_OPEN = "SELECT count(*) FILTER (WHERE state = ANY(%s)), count(*) FROM invocations_asyncinvocation WHERE endpoint_name = %s"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Storm:
    """How many requests, at most how many a second, and the killings: their seed, and the seconds between two of them."""

    jobs: int
    seed: int
    rate: float = float("inf")
    quiet: tuple[float, float] = (2.0, 6.0)


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    audit: Audit
    killed: Counter[str]
    tries: int
    seconds: float
    accepting_seconds: float

    def __str__(self) -> str:
        deaths = ", ".join(f"{count} x {victim}" for victim, count in sorted(self.killed.items()))
        return (
            f"{self.audit}\nkilled: {deaths or 'nobody'}; {self.tries:,} tries, the last accepted after "
            f"{self.accepting_seconds:,.0f} s; everything had its outcome after {self.seconds:,.0f} s"
        )


def run(stack: Stack, storm: Storm, say: Say) -> Outcome:
    """Send requests through the killings."""
    stack.client("s3").create_bucket(Bucket=BUCKET)
    sink = stack.data_dir / "chaos.jsonl"
    limits = {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": AT_ONCE}}
    create_endpoint(
        stack, ENDPOINT, bucket=BUCKET, count=INSTANCES, environment={"CHAOS_SINK": str(sink)}, asynchronous=limits
    )
    in_service(stack, ENDPOINT)
    traffic = Traffic(
        stack.url, Credentials(stack.access_key_id, stack.secret_access_key), ENDPOINT, storm.jobs, storm.rate
    )
    second = SecondWorker(stack)
    killings = Killings(stack, second, storm.seed, storm.quiet)
    began = clock.monotonic()
    killings.start()
    try:
        asyncio.run(traffic.send())
        accepted_after = clock.monotonic() - began
        say(f"all accepted after {accepted_after:,.0f} s")
        stack.wait(lambda: _left(stack, storm.jobs, say) <= LEFT_IN_PEACE * storm.jobs, PEACE_SECONDS)
        killings.stop()
        say("the killings are over")
        stack.wait(lambda: _left(stack, storm.jobs, say) == 0, PEACE_SECONDS)
        seconds = clock.monotonic() - began
    finally:
        killings.stop()
        second.stop()
    found = audit(stack, ENDPOINT, BUCKET, traffic.promises, journal(sink))
    return Outcome(found, killings.killed, traffic.tries, seconds, accepted_after)


def _left(stack: Stack, jobs: int, say: Say) -> int:
    """How many have no outcome yet; all, while the database is away."""
    try:
        with stack.database() as connection:
            row = connection.execute(_OPEN, [list(ENDED), ENDPOINT]).fetchone()
    except psycopg.OperationalError:
        return jobs
    ended, there = row or (0, 0)
    say(f"{ended:,} of {there:,} have an outcome")
    return int(there - ended)
