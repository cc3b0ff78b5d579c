"""How soon work begins when nothing else is to be done: an accept until its model is called, a Celery task until it runs.

Measured from before the client sends to when this process hears of it: from the model's call, which arrives here, or from
a datagram that the task sends. Both workers are up and idle, and all take turns. Nothing else wakes this process meanwhile,
whose processors are those of what it measures: the 202 is read after the call, and the stages of an accept are measured by
themselves.

An accept waits for the disk, and a task in its broker does not. A disk that has been idle may take ten times as long for a
small write as one that has not, so a raw commit of one row is measured beside them, and everything twice: idle, and while
something else keeps the disk awake.
"""

import os
import select
import socket
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from controlplane.core import clock
from controlplane.invocations.notices import CHANNEL
from tests.perf.accepts import TABLE
from tests.perf.drain import THREADS
from tests.perf.drive import signed_request, signer_of
from tests.perf.noop_tasks import app, tell
from tests.perf.site import Site, celery_worker, wait_for

SAMPLES = 60
IDLE_SECONDS = 0.15
AWAKE_SECONDS = 0.005
"""How often the disk is written to that is kept awake."""

NAME = "bench-latency"
_EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


HEADRACE, CELERY, COMMIT = "Headrace, accept to model", "Celery, send to task", "a raw commit of one row"
STORED, ACCEPTED, CALLED = "stored, and told to the dispatcher", "accepted: the 202", "its model called"
STAGES = [STORED, ACCEPTED, CALLED]


class Model:
    """A container in this process, which keeps its connections as containers do."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.sockets = [self._listener]
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def takes(self, ready: socket.socket) -> bool:
        """Whether this socket, from which something can be read, has a call; it is answered."""
        if ready is self._listener:
            self.sockets.append(self._listener.accept()[0])
            return False
        if not ready.recv(65536):
            self.sockets.remove(ready)
            ready.close()
            return False
        ready.sendall(_EMPTY)
        return True

    def close(self) -> None:
        """Hang up."""
        for each in self.sockets:
            each.close()


def run(site: Site) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        rig = _rig(site, stack)
        rivals = {HEADRACE: rig.until_called, CELERY: rig.until_told, COMMIT: rig.until_stored}
        _show("Latency when idle", _by_turns(rivals))
        _show_stages([rig.until_each_stage() for _ in range(SAMPLES)])
        with _awake(site.data_dir):
            _show("The same while the disk is kept awake", _by_turns(rivals))
        wait_for(lambda: site.count("queued") + site.count("running") == 0)
        for name in ("celery", "worker", "gateway"):
            site.stop(name)
    site.forget_requests()


@dataclass
class Rig:
    """What is measured, and with what.

    `line` is the client's kept connection to the gateway; the `bell` hears what the dispatcher hears.
    """

    site: Site
    model: Model
    line: socket.socket
    heard: socket.socket
    database: "psycopg.Connection[Any]"
    bell: "psycopg.Connection[Any]"

    def until_called(self) -> float:
        """Seconds until an accept's model is called."""
        seconds = self._reached([], [CALLED])[CALLED]
        self.line.recv(65536)
        return seconds

    def until_each_stage(self) -> dict[str, float]:
        """Seconds until each stage of an accept, after a pause."""
        self.bell.execute(f"LISTEN {CHANNEL}")
        threading.Event().wait(IDLE_SECONDS)
        reached = self._reached([self.bell, self.line], STAGES)
        self.bell.execute(f"UNLISTEN {CHANNEL}")
        return reached

    def _reached(self, beside_model: list[Any], stages: list[str]) -> dict[str, float]:
        path = f"/endpoints/{NAME}/async-invocations"
        message = signed_request(signer_of(self.site), self.site.url, path, b"{}")
        reached: dict[str, float] = {}
        began = clock.monotonic()
        self.line.sendall(message)
        while len(reached) < len(stages):
            for ready in select.select([*beside_model, *self.model.sockets], [], [])[0]:
                now = clock.monotonic() - began
                if ready is self.bell:
                    self.bell.pgconn.consume_input()
                    if self.bell.pgconn.notifies():
                        reached[STORED] = now
                elif ready is self.line:
                    self.line.recv(65536)
                    reached[ACCEPTED] = now
                elif self.model.takes(ready):
                    reached[CALLED] = now
        return reached

    def until_told(self) -> float:
        """Seconds until a task runs."""
        began = clock.monotonic()
        tell.delay(self.heard.getsockname()[1])
        self.heard.recv(16)
        return clock.monotonic() - began

    def until_stored(self) -> float:
        """Seconds until a row is stored."""
        began = clock.monotonic()
        self.database.execute("INSERT INTO bench_row VALUES (%s, %s)", [uuid4(), b"{}"])
        return clock.monotonic() - began


def _rig(site: Site, stack: ExitStack) -> Rig:
    """Everything started and idle."""
    model = Model()
    stack.callback(model.close)
    heard = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    heard.bind(("127.0.0.1", 0))
    site.endpoint(NAME, model.address)
    nowhere = site.start_noop_server("nowhere-too")
    site.start_gateway()
    site.start_worker(HEADRACE_S3_ENDPOINT_URL=f"http://{nowhere}")
    app.conf.broker_url = site.env["HEADRACE_REDIS_URL"]
    site.start("celery", celery_worker("tests.perf.noop_tasks", THREADS))
    database = stack.enter_context(site.database())
    database.execute(TABLE)
    line = stack.enter_context(socket.create_connection(("127.0.0.1", site.port)))
    return Rig(site, model, line, heard, database, stack.enter_context(site.database()))


def _by_turns(rivals: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Seconds of each, after a pause each time; what starts at the first time is not measured."""
    found: dict[str, list[float]] = {rival: [] for rival in rivals}
    pause = threading.Event()
    for _ in range(SAMPLES + 1):
        for rival, measure in rivals.items():
            pause.wait(IDLE_SECONDS)
            found[rival].append(measure())
    return {rival: seconds[1:] for rival, seconds in found.items()}


@contextmanager
def _awake(folder: Path) -> Iterator[None]:
    """Write to the disk of this folder now and then."""
    over = threading.Event()

    def write() -> None:
        with open(folder / "awake", "wb") as file:
            while not over.wait(AWAKE_SECONDS):
                os.pwrite(file.fileno(), b"x", 0)
                os.fdatasync(file.fileno())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def _show(title: str, found: dict[str, list[float]]) -> None:
    print(f"\n{title}, {SAMPLES} each")
    for rival, seconds in found.items():
        worst = sorted(seconds)[int(len(seconds) * 0.95)]
        print(f"  {rival:28} median {statistics.median(seconds) * 1000:6.1f} ms   p95 {worst * 1000:6.1f} ms")
    print(f"  ratio Headrace : Celery = {statistics.median(found[HEADRACE]) / statistics.median(found[CELERY]):.2f}")


def _show_stages(ours: list[dict[str, float]]) -> None:
    print("  where it goes, from before the client sends (medians of more, while this process hears the notifications too)")
    for stage in STAGES:
        print(f"    {statistics.median(each[stage] for each in ours) * 1000:6.1f} ms  {stage}")
