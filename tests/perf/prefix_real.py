"""`python -m tests.perf.prefix_real`: routing strategies over a running Headrace and seven engine processes.

Everything on the way is real but the model: boto3 creates the endpoints, signed calls go through the gateway, the engine
simulator takes the time that it would. Answers are one token long, so that a call takes as long as its first token. Hit
rates are read from the engines' own metrics. All of it shares this machine's cores: compare lines, not runs.
"""

import http.client
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.perf.prefix_world import Call, Mix, calls_of
from tests.system.raw import signed
from tests.system.stack import PLENTY, Stack, create_endpoint, delete_endpoint, in_service

INSTANCES = 7
CALLERS = 32
PREFIX_AWARE = {"PrefixLength": 4_096, "ConcurrencyThreshold": 64}
MIX = Mix("8,000 shared tokens", 60, (8_000, 8_000), (5, 6, 6, 6), (20, 60), (1, 1), rate=10.0)
_COUNTERS = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")


@dataclass(frozen=True)
class Measured:
    """One strategy: seconds of each answered call in order of size, hit rate by tokens, and calls not answered."""

    seconds: Sequence[float]
    hit_rate: float
    failed: int

    def quantile(self, part: float) -> float:
        return self.seconds[min(int(part * len(self.seconds)), len(self.seconds) - 1)]


def measure(stack: Stack, strategy: str) -> Measured:
    """Create an endpoint with this strategy, send it the calls of the mix, and delete it."""
    name = strategy.lower().replace("_", "-")
    routing: dict[str, Any] = {"RoutingStrategy": strategy}
    if strategy == "PREFIX_AWARE":
        routing["PrefixAwareRoutingConfig"] = PREFIX_AWARE
    create_endpoint(
        stack,
        name,
        count=INSTANCES,
        types=(PLENTY,),
        environment={"ENGINE_CACHE_BLOCKS": "250000"},
        variant={"RoutingConfig": routing},
    )
    in_service(stack, name)
    addresses = _addresses(stack, name)
    answers = _send(stack, f"/endpoints/{name}/invocations", calls_of(MIX, seed=1))
    queries, hits = (sum(_counter(address, counter) for address in addresses) for counter in _COUNTERS)
    delete_endpoint(stack, name)
    good = sorted(seconds for status, seconds in answers if status == 200)
    return Measured(good, hits / queries, len(answers) - len(good))


def _send(stack: Stack, path: str, calls: Sequence[Call]) -> list[tuple[int, float]]:
    """Each call at its time; what came of it, and after how many seconds."""
    kept, started, pause = threading.local(), time.monotonic(), threading.Event()

    def send(call: Call) -> tuple[int, float]:
        body = json.dumps({**json.loads(call.body), "max_tokens": call.output_tokens}).encode()
        headers = signed(stack, "POST", path, {}, body)
        pause.wait(max(started + call.at - time.monotonic(), 0))
        if not hasattr(kept, "connection"):
            kept.connection = http.client.HTTPConnection("127.0.0.1", int(stack.port), timeout=60)
        began = time.monotonic()
        kept.connection.request("POST", path, body, headers)
        answer = kept.connection.getresponse()
        answer.read()
        return answer.status, time.monotonic() - began

    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(send, calls))


def _addresses(stack: Stack, name: str) -> list[str]:
    with stack.database() as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT i.address FROM fleet_instance i JOIN endpoints_endpoint e ON e.id = i.endpoint_id"
                " WHERE e.name = %s AND i.stage = 'ready'",
                [name],
            )
        ]


def _counter(address: str, name: str) -> float:
    with urlopen(f"http://{address}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + "{")).split()[-1])


def run(stack: Stack) -> None:
    """Print a line for each strategy."""
    print(f"\nThrough the gateway to {INSTANCES} engine processes: {MIX.prefixes} x {MIX.name}, {MIX.rate:g} calls/s")
    base: Measured | None = None
    for strategy in ("RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE"):
        found = measure(stack, strategy)
        base = base or found
        times = [
            f"P{part * 100:.0f} TTFT {value * 1000:5,.0f} ms ({value / base.quantile(part) - 1:+4.0%})"
            for part in (0.5, 0.9)
            for value in (found.quantile(part),)
        ]
        failed = f", {found.failed} not answered" if found.failed else ""
        print(
            f"  {strategy:27} hit rate {found.hit_rate:5.1%}  {'  '.join(times)}  {len(found.seconds)} calls{failed}",
            flush=True,
        )


def main() -> None:
    """Start a Headrace, measure, stop it."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-prefix-"))
    data_dir.chmod(0o755)
    stack = Stack(data_dir)
    stack.image = "headrace/engine:latest"
    try:
        stack.start()
        run(stack)
    finally:
        stack.stop()
        shutil.rmtree(data_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
