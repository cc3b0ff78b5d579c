"""How soon work begins when nothing else is to be done: an accept until its model is called, a Celery task until it runs.

Measured from before the client sends to when this process hears of it: from the model's call, which arrives here, or from
a datagram that the task sends. Both workers are up and idle; the two take turns.
"""

import select
import socket
import statistics
import threading
from typing import Any

import psycopg

from controlplane.core import clock
from controlplane.invocations.accept import CHANNEL
from tests.perf.drain import THREADS
from tests.perf.drive import signed_request, signer_of
from tests.perf.noop_tasks import app, tell
from tests.perf.site import Site, celery_worker, wait_for

SAMPLES = 60
IDLE_SECONDS = 0.15
NAME = "bench-latency"
_EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


STORED, ACCEPTED, CALLED = "stored, and told to the dispatcher", "accepted: the 202", "its model called"


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
    model = Model()
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(("127.0.0.1", 0))
    site.endpoint(NAME, model.address)
    nowhere = site.start_noop_server("nowhere-too")
    site.start_gateway()
    site.start_worker(HEADRACE_S3_ENDPOINT_URL=f"http://{nowhere}")
    app.conf.broker_url = site.env["HEADRACE_REDIS_URL"]
    site.start("celery", celery_worker("tests.perf.noop_tasks", THREADS))
    ours: list[dict[str, float]] = []
    theirs: list[float] = []
    pause = threading.Event()
    with site.database() as bell, socket.create_connection(("127.0.0.1", site.port)) as line:
        bell.execute(f"LISTEN {CHANNEL}")
        for _ in range(SAMPLES + 1):
            pause.wait(IDLE_SECONDS)
            ours.append(_until_called(site, model, bell, line))
            pause.wait(IDLE_SECONDS)
            theirs.append(_until_told(heard))
    _show(ours[1:], theirs[1:])  # what starts at the first time is not measured
    wait_for(lambda: site.count("completed") > SAMPLES)
    for name in ("celery", "worker", "gateway"):
        site.stop(name)
    model.close()
    heard.close()
    site.forget_requests()


def _show(ours: list[dict[str, float]], theirs: list[float]) -> None:
    print(f"\nLatency when idle, {SAMPLES} each")
    rivals = {"Headrace, accept to model": [each[CALLED] for each in ours], "Celery, send to task": theirs}
    for rival, found in rivals.items():
        worst = sorted(found)[int(len(found) * 0.95)]
        print(f"  {rival:28} median {statistics.median(found) * 1000:6.1f} ms   p95 {worst * 1000:6.1f} ms")
    median, other = (statistics.median(found) for found in rivals.values())
    print(f"  ratio Headrace : Celery = {median / other:.2f}")
    print("  where it goes, from before the client sends (medians)")
    for stage in (STORED, ACCEPTED, CALLED):
        print(f"    {statistics.median(each[stage] for each in ours) * 1000:6.1f} ms  {stage}")


def _until_called(site: Site, model: Model, bell: "psycopg.Connection[Any]", line: socket.socket) -> dict[str, float]:
    """Seconds until each stage; the line is the client's kept connection, the bell hears what the dispatcher hears."""
    message = signed_request(signer_of(site), site.url, f"/endpoints/{NAME}/async-invocations", b"{}")
    reached: dict[str, float] = {}
    began = clock.monotonic()
    line.sendall(message)
    while len(reached) < len((STORED, ACCEPTED, CALLED)):
        for ready in select.select([bell, line, *model.sockets], [], [])[0]:
            now = clock.monotonic() - began
            if ready is bell:
                bell.pgconn.consume_input()
                if bell.pgconn.notifies():
                    reached[STORED] = now
            elif ready is line:
                line.recv(65536)
                reached[ACCEPTED] = now
            elif model.takes(ready):
                reached[CALLED] = now
    return reached


def _until_told(heard: socket.socket) -> float:
    began = clock.monotonic()
    tell.delay(heard.getsockname()[1])
    heard.recv(16)
    return clock.monotonic() - began
