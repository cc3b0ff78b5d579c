"""`python -m tests.perf`: all benchmarks, on a Headrace of their own."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.perf import asynchronous, fallback, lifecycle, prefix, routed, routing_cost, simulator
from tests.system.stack import Stack


def main() -> None:
    """Start, measure, stop."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    data_dir.chmod(0o755)
    stack = Stack(data_dir)
    asynchronous.run()
    print("Starting Headrace...", flush=True)
    try:
        stack.start()
        lifecycle.run(stack)
        fallback.run(stack)
    finally:
        stack.stop()
        shutil.rmtree(data_dir, ignore_errors=True)
    routed.run([])
    simulator.run()
    routing_cost.run()
    prefix.run(None)
    # On engines of its own, and with Django set up for them.
    subprocess.run([sys.executable, "-m", "tests.perf.planning"], check=True)


if __name__ == "__main__":
    main()
