"""Asynchronous accepts a second beside raw single-row INSERT + COMMIT of the same PostgreSQL, and beside moto.

Two baselines of raw: a client that speaks PostgreSQL's protocol and does nothing else, which shows what PostgreSQL can do;
and psycopg in threads, which is what an application that stores a row for each request would have. An accept is an HTTP
request with a signature, its validation, two rows with their indexes and a notification. Gateway, PostgreSQL and client
share the processors, so the processor time that each takes is printed too; where the ratio falls short, that is why.
"""

import statistics
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from controlplane.embedded.store import accepts
from tests import aws
from tests.controlplane.routing.peers import free_port
from tests.perf.drive import Pump, Round, accept_pump, limit_of, raw_pump
from tests.perf.measure import interleaved, show
from tests.perf.site import ACCOUNT, REGION, Site

BODIES = [b'{"number": %06d, "question": "' % number + b"x" * 400 + b'"}' for number in range(3000)]
NAME = "bench-accepts"
ROUNDS, ROUND_SECONDS = 3, 3.0
TABLE = "CREATE TABLE IF NOT EXISTS bench_row (id uuid PRIMARY KEY, body bytea)"
INSERT = "INSERT INTO bench_row VALUES ($1, $2)"


def run(site: Site) -> None:
    """Measure at 1, 8 and 32 connections; the endpoint has no instance and no worker runs, so nothing is drained."""
    site.endpoint(NAME)
    with site.database() as connection:
        connection.execute(TABLE)
    site.start_gateway()
    for connections in (1, 8, 32):
        ours = accept_pump(site, NAME, BODIES)
        raw = raw_pump(site, INSERT, BODIES[0].decode())
        _beside_raw(site, connections, ours, raw)
        for pump in (ours, raw):
            pump.close()
    _beside_moto(site)
    site.stop("gateway")
    site.forget_requests()


def _beside_raw(site: Site, connections: int, ours: Pump, raw: Pump) -> None:
    rivals: dict[str, Callable[[], Round]] = {
        "accepts": lambda: ours.round(connections, ROUND_SECONDS),
        "raw, bare protocol": lambda: raw.round(connections, ROUND_SECONDS),
        "raw, psycopg threads": lambda: _psycopg_round(site, connections),
    }
    rounds: dict[str, list[Round]] = {rival: [] for rival in rivals}
    for _ in range(ROUNDS):
        for rival, take in rivals.items():
            rounds[rival].append(take())
    print(f"\nAsynchronous accepts beside raw INSERT+COMMIT, {connections} connection(s)")
    median = {rival: statistics.median(each.rate for each in found) for rival, found in rounds.items()}
    for rival, found in rounds.items():
        print(f"  {rival:22} {sorted(found, key=lambda each: each.rate)[ROUNDS // 2]}")
    for rival in ("raw, bare protocol", "raw, psycopg threads"):
        print(f"  ratio accepts : {rival} = {median['accepts'] / median[rival]:.2f}", flush=True)
    print(f"    {limit_of(sorted(rounds['accepts'], key=lambda each: each.rate)[ROUNDS // 2])}")


def _psycopg_round(site: Site, connections: int) -> Round:
    """The same row by psycopg, a thread for each connection, in a process of its own."""
    command = [sys.executable, "-m", "tests.perf.insert_threads", site.database_url, str(connections), str(ROUND_SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, seconds, cpu = done.stdout.split()
    return Round(int(count), float(seconds), {"client": float(cpu)})


def _beside_moto(site: Site) -> None:
    """The same boto3 client against moto, which keeps nothing and checks no signature."""
    port = free_port()
    server = str(Path(sys.executable).with_name("moto_server"))
    quiet = subprocess.DEVNULL
    moto = subprocess.Popen([server, "-H", "127.0.0.1", "-p", str(port)], stdout=quiet, stderr=quiet)
    try:
        pause = threading.Event()
        while not accepts(port):
            pause.wait(0.1)
        rivals = {
            "moto (in memory)": lambda: _by_boto3(site, f"http://127.0.0.1:{port}"),
            "Headrace (durable)": lambda: _by_boto3(site, site.url),
        }
        for threads in (1, 8):
            rates = interleaved(rivals, threads)
            show(f"Asynchronous accepts, {threads} boto3 thread(s)", rates, "Headrace (durable)", "moto (in memory)")
    finally:
        moto.terminate()
        moto.wait()


def _by_boto3(site: Site, url: str) -> Callable[[], int]:
    keys = {"aws_access_key_id": site.access_key_id, "aws_secret_access_key": site.secret_access_key}
    client: Any = aws.client("sagemaker-runtime", endpoint_url=url, region_name=REGION, **keys)
    # moto answers from memory what it has seen before, and takes no inline body.
    is_moto = url != site.url

    def accept() -> int:
        member = {"InputLocation": f"s3://{ACCOUNT}/{uuid4()}"} if is_moto else {"Body": BODIES[0]}
        client.invoke_endpoint_async(EndpointName=NAME, ContentType="application/json", **member)
        return 1

    return accept
