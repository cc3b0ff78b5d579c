"""What a planning round costs, and what the endpoints cost that have nothing to do.

    the scan                 finding what is due, as the endpoints grow that are not, with as many busy ones: must stay flat
    a round                  claim, observe, ping, plan and release of one serving endpoint that is well
    what one thread carries  a serving endpoint wants such a round every PING_SECONDS

The messages (Celery) are not counted: a round is what the task does once it runs. The provider is the simulated one, which
answers at once; a real one's describe and the containers' pings are waited for, mostly without the processor.
"""

import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.core import clock
from controlplane.endpoints.models import Endpoint
from tests.perf.population import add_idle, serving_endpoints
from workers.fleet.plan import PING_SECONDS
from workers.loop.lease import due_endpoints
from workers.loop.run import reconcile
from workers.schedule import SCAN_LIMIT

BUSY = 20
IDLE = (100, 1_000, 10_000)
SCANS, ROUNDS = 200, 10
FORM = "  {:>10} {:>12} {:>14} {:>12} {:>22}"


def run() -> None:
    """Measure beside ever more idle endpoints."""
    busy = serving_endpoints(BUSY)
    print(f"\nPlanning with {BUSY} endpoints due, beside idle ones (medians)")
    print(FORM.format("idle", "scan", "none due", "a round", "of it in this process"))
    there, wall = 0, 0.0
    for idle in IDLE:
        add_idle(there, idle)
        there = idle
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        none_due = _median(_scan, SCANS)
        _make_due(busy)
        scan = _median(_scan, SCANS)
        wall, processor = _rounds(busy)
        print(FORM.format(f"{idle:,}", _ms(scan), _ms(none_due), _ms(wall), _ms(processor)))
    with CaptureQueriesContext(connection) as queries:
        reconcile(busy[0])
    print(f"  a round is {len(queries)} statements")
    carried = PING_SECONDS / wall
    print(f"  one thread carries about {carried:,.0f} serving endpoints, each looked at every {PING_SECONDS:g} s")


def _scan() -> None:
    due_endpoints(clock.now(), SCAN_LIMIT)


def _make_due(busy: list[UUID]) -> None:
    Endpoint.objects.filter(pk__in=busy).update(look_again_at=clock.now() - timedelta(seconds=1))


def _rounds(busy: list[UUID]) -> tuple[float, float]:
    """Median seconds of a round, and of this process's processor in it."""
    walls, processors = [], []
    for _ in range(ROUNDS):
        for endpoint_id in busy:
            wall, processor = time.perf_counter(), time.process_time()
            reconcile(endpoint_id)
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
    return statistics.median(walls), statistics.median(processors)


def _median(operation: Callable[[], None], times: int) -> float:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        operation()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
