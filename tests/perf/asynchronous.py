"""`python -m tests.perf.asynchronous`: asynchronous invocations, on engines of their own and beside nothing else."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.perf import accepts, backlog, drain, latency, phases
from tests.perf.site import Site, running

PARTS: dict[str, Callable[[Site], None]] = {
    "accepts": accepts.run,
    "drain": drain.run,
    "latency": latency.run,
    "phases": phases.run,
    "backlog": backlog.run,
}


def run(*names: str) -> None:
    """Measure the parts of these names, or all."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    data_dir.chmod(0o755)
    try:
        with running(data_dir) as site:
            for name in names or PARTS:
                PARTS[name](site)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


if __name__ == "__main__":
    run(*sys.argv[1:])
