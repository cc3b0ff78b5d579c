"""`python -m tests.perf.insert_threads URL CONNECTIONS SECONDS`: single-row INSERT + COMMIT by psycopg, a thread for each.

Prints how many rows, the seconds it took, and the processor time of this process.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg

from controlplane.core import clock

BODY = b"x" * 440


def main(url: str, connections: int, seconds: float) -> None:
    """Insert for so long."""
    opened = [psycopg.connect(url, autocommit=True) for _ in range(connections)]
    began, cpu = clock.monotonic(), sum(os.times()[:2])
    deadline = began + seconds

    def work(connection: "psycopg.Connection[tuple[object, ...]]") -> int:
        done = 0
        while clock.monotonic() < deadline:
            connection.execute("INSERT INTO bench_row VALUES (%s, %s)", [uuid4(), BODY])
            done += 1
        return done

    with ThreadPoolExecutor(connections) as threads:
        done = sum(threads.map(work, opened))
    print(done, clock.monotonic() - began, sum(os.times()[:2]) - cpu)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
