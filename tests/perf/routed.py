"""`python -m tests.perf.routed`: what a routed call costs over a direct one, beside what others cost who route.

One container, one load client, all peers up at once; they take turns in short rounds, so that what else the machine does
falls on all of them. A call through Headrace has its signature checked, its instance chosen and its figures counted.
"""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.embedded.store import accepts
from tests.controlplane.routing.peers import free_port
from tests.perf import gateway_profile
from tests.perf.canned_model import EVENTS
from tests.perf.pump import packed
from tests.perf.rivals import HAPROXY, SGLANG_ROUTER, VLLM_ROUTER
from tests.perf.routed_peers import ENDPOINT, HEADRACE, SHARED, Peer, cpu_seconds, direct, headrace, headrace_shared, rivals
from tests.perf.site import REPOSITORY, Site, running, serves, wait_for

CONNECTIONS = (1, 16, 64)
ADDED_MS, FIRST_ADDED_MS, PART_OF_HAPROXY = 0.4, 2.0, 0.5
"""Targets: milliseconds added to the median call on one connection, to a stream's first byte; share of HAProxy's calls."""


@dataclass
class Found:
    """A peer's rounds, and what its processor time came to over all of them."""

    rounds: list[dict[str, float]] = field(default_factory=list)
    cpu: float = 0.0

    def median(self, figure: str) -> float:
        return statistics.median(each[figure] for each in self.rounds)

    @property
    def rate(self) -> float:
        return statistics.median(each["done"] / each["seconds"] for each in self.rounds)

    def added(self, base: "Found", figure: str) -> float:
        """Milliseconds over the direct call of the same round."""
        return statistics.median(mine[figure] - other[figure] for mine, other in zip(self.rounds, base.rounds, strict=True))

    @property
    def cpu_each(self) -> float:
        """Microseconds of processor time a call."""
        return 1e6 * self.cpu / (sum(each["done"] for each in self.rounds) or 1)


class Caller:
    """The load client's process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.perf.caller"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def prepare(self, peer: Peer, *, is_stream: bool) -> Path:
        """Make the peer's requests; signatures are good for five minutes."""
        path = self._folder / f"messages-{peer.name}-{is_stream}".replace(" ", "-")
        path.write_bytes(packed(peer.messages(is_stream=is_stream)))
        return path

    def round(self, peer: Peer, messages: Path, connections: int, seconds: float) -> dict[str, Any]:
        """Call for a while; raises RuntimeError for an answer other than 200."""
        asked = {"port": peer.port, "messages": str(messages), "connections": connections, "seconds": seconds}
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the load client has no pipes")
        stdin.write(json.dumps(asked) + "\n")
        stdin.flush()
        found: dict[str, Any] = json.loads(stdout.readline())
        if "failed" in found:
            raise RuntimeError(f"{peer.name} answered: {found['failed']}")
        return found

    def close(self) -> None:
        self._process.communicate(timeout=10)


def compare(
    caller: Caller, peers: list[Peer], connections: int, options: argparse.Namespace, *, is_stream: bool
) -> dict[str, Found]:
    """Rounds in turns, each of fresh connections."""
    peers = [peer for peer in peers if connections <= peer.most_connections]
    messages = {peer.name: caller.prepare(peer, is_stream=is_stream) for peer in peers}
    found = {peer.name: Found() for peer in peers}
    for peer in peers:
        caller.round(peer, messages[peer.name], connections, 0.2)  # connections, caches and code paths are warm after it
    for _ in range(options.rounds):
        for peer in peers:
            before = cpu_seconds(peer.pids)
            found[peer.name].rounds.append(caller.round(peer, messages[peer.name], connections, options.seconds))
            found[peer.name].cpu += cpu_seconds(peer.pids) - before
    return found


def show(title: str, found: dict[str, Found], figure: str) -> None:
    """A table: calls a second, what is added to the median and to the 99th percentile, processor time."""
    base = found["direct"]
    print(f"\n{title}")
    print(f"  {'':28} {'a second':>10} {'p50 ms':>9} {'added':>9} {'p99 ms':>9} {'added':>9} {'CPU, us each':>13}")
    for name, each in found.items():
        p50, p99 = f"{figure}p50", f"{figure}p99"
        added = ("", "") if each is base else (f"{each.added(base, p50):+.2f}", f"{each.added(base, p99):+.2f}")
        cpu = "" if each is base else f"{each.cpu_each:,.0f}"
        print(
            f"  {name:28} {each.rate:10,.0f} {each.median(p50):9.2f} {added[0]:>9} {each.median(p99):9.2f}"
            f" {added[1]:>9} {cpu:>13}"
        )
    others = [name for name in found if not name.startswith((HEADRACE, "direct"))]
    for ours in (HEADRACE, SHARED):
        ratios = ", ".join(f"{name} = {found[ours].rate / found[name].rate:.2f}" for name in others)
        print(f"  calls, {ours} : {ratios}")


def judge_calls(found: dict[str, Found], connections: int) -> bool:
    """Print the targets for whole answers; whether all are met.

    The routers have a thread for each processor, and are measured against as many gateways, or against one where that
    does more (the load client and the container want processors too); HAProxy has one thread here.
    """
    ours, verdicts = found[HEADRACE], []
    if connections == 1:
        added = ours.added(found["direct"], "p50")
        verdicts.append(_verdict(f"added p50 {added:.2f} ms, at most {ADDED_MS}", added <= ADDED_MS))
    else:
        best = max((HEADRACE, SHARED), key=lambda name: found[name].rate)
        for name, by, part in ((VLLM_ROUTER, best, 1.0), (SGLANG_ROUTER, best, 1.0), (HAPROXY, HEADRACE, PART_OF_HAPROXY)):
            if name in found:
                ratio = found[by].rate / found[name].rate
                verdicts.append(_verdict(f"{by}: {ratio:.2f} of {name}'s calls a second, at least {part:g}", ratio >= part))
    return all(verdicts)


def judge_streams(found: dict[str, Found]) -> bool:
    """Print the target for the first byte of a stream; whether it is met."""
    added = found[HEADRACE].added(found["direct"], "first_p50")
    return _verdict(f"first byte added {added:.2f} ms, at most {FIRST_ADDED_MS}", added <= FIRST_ADDED_MS)


def _verdict(text: str, is_met: bool) -> bool:
    print(f"  {'met   ' if is_met else 'MISSED'} {text}")
    return is_met


def profile(site: Site, caller: Caller, options: argparse.Namespace) -> None:
    """Call a gateway that is profiled, and print where its time goes."""
    file, port = site.data_dir / "gateway.prof", free_port()
    process = site.start("profiled", ["-m", "tests.perf.gateway_profile", str(file)], HEADRACE_PORT=str(port))
    wait_for(lambda: serves(port))
    peer = headrace(site, port, (process.pid,))[0]
    messages = caller.prepare(peer, is_stream=False)
    caller.round(peer, messages, 16, 0.5)
    process.send_signal(signal.SIGUSR2)
    done = caller.round(peer, messages, 16, 3 * options.seconds)["done"]
    process.send_signal(signal.SIGINT)
    process.wait(20)
    print("\nWhere the gateway's time goes (cProfile, InvokeEndpoint, 16 connections; own time by module)")
    for name, share in gateway_profile.shares(file):
        print(f"  {share:6.1%}  {name}")
    print("The functions that cost most themselves: times in a call of the client's, microseconds each time")
    for name, calls, each in gateway_profile.functions(file):
        print(f"  {calls / done:6.1f} x {each:6.1f}  {name}")


def measure(site: Site, caller: Caller, options: argparse.Namespace) -> None:
    """All tables, and a profile where a target is missed or one is asked for."""
    upstream_port = free_port()
    site.start("container", ["-m", "tests.perf.canned_model", str(upstream_port)])
    wait_for(lambda: accepts(upstream_port))
    site.endpoint(ENDPOINT, f"127.0.0.1:{upstream_port}", is_async=False)
    site.start_gateway()
    gateway = site.processes["gateway"]
    ours = [*headrace(site, site.port, (gateway.pid,)), headrace_shared(site)]
    peers = [direct(upstream_port), *ours, *([] if options.alone else rivals(site, upstream_port))]
    is_good = True
    for connections in CONNECTIONS:
        found = compare(caller, peers, connections, options, is_stream=False)
        show(f"Routed calls, whole answers, {connections} connection(s)", found, "")
        is_good &= judge_calls(found, connections)
    for connections in CONNECTIONS:
        found = compare(caller, peers, connections, options, is_stream=True)
        show(f"Routed streams of {EVENTS} events, to the first byte, {connections} connection(s)", found, "first_")
        is_good &= judge_streams(found) or connections > 1
    if options.profile or not is_good:
        profile(site, caller, options)


def run(arguments: list[str] | None = None) -> None:
    """Start what takes part, compare, end everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.perf.routed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each peer (3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round (1)")
    parser.add_argument("--alone", action="store_true", help="without the rivals")
    parser.add_argument("--profile", action="store_true", help="say where the gateway's time goes even if all is well")
    options = parser.parse_args(arguments)
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-routed-"))
    data_dir.chmod(0o755)
    print("\nRouted calls: starting the gateway and its rivals...", flush=True)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, data_dir, ignore_errors=True)
        site = stack.enter_context(running(data_dir))
        caller = Caller(data_dir)
        stack.callback(caller.close)
        measure(site, caller, options)


if __name__ == "__main__":
    run(sys.argv[1:])
