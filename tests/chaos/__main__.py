"""`python -m tests.chaos --jobs 100000`: exit code 0 when every accepted request has its one outcome."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from controlplane.core import clock
from tests.chaos.run import Storm, run
from tests.system.stack import Stack

SHOWN_FAULTS = 20
SAY_SECONDS = 10.0


def main() -> int:
    """Start, hurt, count, stop."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=float("inf"), help="requests a second, at most")
    parser.add_argument("--quiet", type=float, default=6.0, help="seconds between two killings, at least")
    asked = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    data_dir.chmod(0o755)
    stack = Stack(data_dir)
    try:
        stack.start()
        outcome = run(stack, Storm(asked.jobs, asked.seed, asked.rate, (asked.quiet, 3 * asked.quiet)), NowAndThen())
    finally:
        stack.stop()
        shutil.rmtree(data_dir, ignore_errors=True)
    print(outcome)
    for fault in outcome.audit.faults[:SHOWN_FAULTS]:
        print(f"  {fault}")
    return 1 if outcome.audit.faults else 0


class NowAndThen:
    """Says what it is told, at most every SAY_SECONDS."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def __call__(self, text: str) -> None:
        if clock.monotonic() - self._said_at >= SAY_SECONDS:
            self._said_at = clock.monotonic()
            print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
