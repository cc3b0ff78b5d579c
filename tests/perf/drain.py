"""Drained jobs a second beside plain Celery, the same broker and the same number of processes taking turns.

A job is all of it: claimed, payload read, model called, intent committed, output object written, outcome committed. A
Celery task does nothing at all. The store is a peer that costs what it costs, so it is measured a second time with one
that takes everything and keeps nothing, and beside Celery tasks that keep an object in the same store. Where a ratio falls
short, the line under it says whose processor time it is that sets the pace, and the worker's profile follows.
"""

import os
import statistics
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import redis

from controlplane.core import clock
from tests import aws
from tests.perf.drive import Round, cpu_seconds, limit_of
from tests.perf.gateway_profile import shares as profile_shares
from tests.perf.noop_tasks import QUEUE, noop, store
from tests.perf.site import BUCKET, REGION, Site, celery_worker, wait_for

JOBS = 3_000
JOBS_STORING = 600
ROUNDS = 3
TARGET = 3.0
"""Times Celery's rate."""

CONCURRENCY = 64
"""Jobs at once on the one instance: the most that keep a worker's loop busy."""

THREADS = 8
SETTLE_SECONDS = 0.1

NOTHING, STORING = "Celery, tasks that do nothing", "Celery, tasks that only store"
WITHOUT, WITH = "Headrace, store left out", "Headrace, embedded store"


def run(site: Site) -> None:
    """Measure and print."""
    model = site.start_noop_server("model")
    nowhere = site.start_noop_server("nowhere")
    _make_bucket(site)
    name = "bench-drain"
    endpoint_id = site.endpoint(name, model, max_concurrent=CONCURRENCY)
    rivals: dict[str, Callable[[], Round]] = {
        NOTHING: lambda: celery_round(site, JOBS, lambda: noop.delay("{}")),
        STORING: lambda: celery_round(site, JOBS_STORING, lambda: store.delay(BUCKET)),
        WITHOUT: lambda: drain_round(site, endpoint_id, name, JOBS, f"http://{nowhere}"),
        WITH: lambda: drain_round(site, endpoint_id, name, JOBS, ""),
    }
    rounds: dict[str, list[Round]] = {rival: [] for rival in rivals}
    for _ in range(ROUNDS):
        for rival, take in rivals.items():
            rounds[rival].append(take())
    print("\nDrained jobs beside plain Celery, one worker process each")
    rates = {rival: statistics.median(each.rate for each in found) for rival, found in rounds.items()}
    for rival, found in rounds.items():
        print(f"  {rival:32} {sorted(found, key=lambda each: each.rate)[len(found) // 2]}")
    for ours, celery in ((WITHOUT, NOTHING), (WITH, STORING), (WITH, NOTHING)):
        ratio = rates[ours] / rates[celery]
        print(f"  ratio {ours} : {celery} = {ratio:.2f}")
        if ratio < TARGET:
            print(f"    {limit_of(sorted(rounds[ours], key=lambda each: each.rate)[ROUNDS // 2])}")
    _profile(site, endpoint_id, name, f"http://{nowhere}")


def _profile(site: Site, endpoint_id: UUID, name: str, store: str) -> None:
    """Where the worker's time goes, by module, with the store left out."""
    file = site.data_dir / "worker.profile"
    site.queue_up(endpoint_id, name, JOBS)
    site.start("profiled", ["-m", "tests.perf.worker_profile", str(file)], HEADRACE_S3_ENDPOINT_URL=store)
    with site.database() as connection:
        wait_for(lambda: _completed(connection) >= JOBS)
    site.stop("profiled")
    print("  the worker's time by module (under a profiler, which makes small functions look dearer)")
    for module, share in profile_shares(file):
        print(f"    {share:6.1%}  {module}")
    site.forget_requests()


def drain_round(site: Site, endpoint_id: UUID, name: str, jobs: int, store: str) -> Round:
    """Let one worker empty a queue of `jobs`; the rate is of what was done after its start."""
    site.queue_up(endpoint_id, name, jobs)
    changed = {"HEADRACE_S3_ENDPOINT_URL": store} if store else {}
    site.start_worker(**changed)
    try:
        with site.database() as connection:  # one for all looks: a connection costs PostgreSQL more than many jobs do
            return _watched(site, lambda: _completed(connection), jobs)
    finally:
        site.stop("worker")
        site.forget_requests()


def celery_round(site: Site, jobs: int, send: Callable[[], object]) -> Round:
    """Let one Celery worker empty a queue of `jobs`, each of which is sent so."""
    broker = redis.Redis.from_url(site.env["HEADRACE_REDIS_URL"])
    os.environ["HEADRACE_REDIS_URL"] = site.env["HEADRACE_REDIS_URL"]
    noop.app.conf.broker_url = site.env["HEADRACE_REDIS_URL"]
    for _ in range(jobs):
        send()
    site.start("celery", celery_worker("tests.perf.noop_tasks", THREADS))
    try:
        return _watched(site, lambda: jobs - broker.llen(QUEUE), jobs)
    finally:
        site.stop("celery")
        broker.delete(QUEUE)


def _completed(connection: "psycopg.Connection[Any]") -> int:
    row = connection.execute("SELECT count(*) FROM invocations_asyncinvocation WHERE state = 'completed'").fetchone()
    return int(row[0]) if row else 0


def _watched(site: Site, done: Callable[[], int], jobs: int) -> Round:
    """The rate and the processor time between the first tenth and the last: starting and stopping are not measured."""
    wait_for(lambda: done() >= jobs // 10)
    started, before, first = clock.monotonic(), cpu_seconds(site.data_dir), done()
    pause = threading.Event()
    while (now := done()) < jobs * 9 // 10:
        pause.wait(SETTLE_SECONDS)
    took, after = clock.monotonic() - started, cpu_seconds(site.data_dir)
    return Round(now - first, took, {role: after[role] - before.get(role, 0.0) for role in after})


def _make_bucket(site: Site) -> None:
    keys = {"aws_access_key_id": site.access_key_id, "aws_secret_access_key": site.secret_access_key}
    store = aws.client("s3", endpoint_url=site.env["HEADRACE_S3_ENDPOINT_URL"], region_name=REGION, **keys)
    if BUCKET not in [bucket["Name"] for bucket in store.list_buckets()["Buckets"]]:
        store.create_bucket(Bucket=BUCKET)
