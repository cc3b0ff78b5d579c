"""How soon work begins when nothing else is to be done: an accept until its model is called, a Celery task until it runs.

Measured from before the client sends to when this process hears of it: from the model's call, which arrives here, or from
a datagram that the task sends. Both workers are up and idle; the two take turns.
"""

import socket
import statistics
import threading
from collections.abc import Callable

from controlplane.core import clock
from tests.perf.drain import THREADS
from tests.perf.drive import signed_request, signer_of
from tests.perf.noop_tasks import app, tell
from tests.perf.site import Site, celery_worker, wait_for

SAMPLES = 60
IDLE_SECONDS = 0.15
NAME = "bench-latency"
_EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def run(site: Site) -> None:
    """Measure and print."""
    model = socket.create_server(("127.0.0.1", 0))
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(("127.0.0.1", 0))
    site.endpoint(NAME, f"127.0.0.1:{model.getsockname()[1]}")
    nowhere = site.start_noop_server("nowhere-too")
    site.start_gateway()
    site.start_worker(HEADRACE_S3_ENDPOINT_URL=f"http://{nowhere}")
    app.conf.broker_url = site.env["HEADRACE_REDIS_URL"]
    site.start("celery", celery_worker("tests.perf.noop_tasks", THREADS))
    rivals: dict[str, Callable[[], float]] = {
        "Headrace, accept to model": lambda: _until_called(site, model),
        "Celery, send to task": lambda: _until_told(heard),
    }
    for take in rivals.values():
        take()  # what starts at the first time is not measured
    took: dict[str, list[float]] = {rival: [] for rival in rivals}
    pause = threading.Event()
    for _ in range(SAMPLES):
        for rival, take in rivals.items():
            pause.wait(IDLE_SECONDS)
            took[rival].append(take())
    print(f"\nLatency when idle, {SAMPLES} each")
    for rival, found in took.items():
        worst = sorted(found)[int(len(found) * 0.95)]
        print(f"  {rival:28} median {statistics.median(found) * 1000:6.1f} ms   p95 {worst * 1000:6.1f} ms")
    ours, theirs = (statistics.median(found) for found in took.values())
    print(f"  ratio Headrace : Celery = {ours / theirs:.2f}")
    wait_for(lambda: site.count("completed") > SAMPLES)
    for name in ("celery", "worker", "gateway"):
        site.stop(name)
    model.close()
    heard.close()
    site.forget_requests()


def _until_called(site: Site, model: socket.socket) -> float:
    message = signed_request(signer_of(site), site.url, f"/endpoints/{NAME}/async-invocations", b"{}")
    with socket.create_connection(("127.0.0.1", site.port)) as line:
        began = clock.monotonic()
        line.sendall(message)
        call, _ = model.accept()
        call.recv(65536)
        took = clock.monotonic() - began
        call.sendall(_EMPTY)
        call.close()
        line.recv(65536)
    return took


def _until_told(heard: socket.socket) -> float:
    began = clock.monotonic()
    tell.delay(heard.getsockname()[1])
    heard.recv(16)
    return clock.monotonic() - began
