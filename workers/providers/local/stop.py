"""`python -m workers.providers.local.stop DATA_DIR`: end every local instance and wait until all are gone.

Exit code 1 when one outlived both the containers' grace and being killed.
"""

import sys
import threading
from pathlib import Path

from controlplane.core import clock
from workers.providers.local.processes import Directory, directories, stop_all

PATIENCE_SECONDS = 35.0
"""The containers' grace of 30 s and a little."""

KILL_SECONDS = 5.0


def main(data_dir: Path, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Ask, wait, and kill whatever is left after `patience_seconds`; returns how many are alive even then."""
    stop_all(data_dir)
    for each in _wait(data_dir, patience_seconds):
        each.kill()
    left = _wait(data_dir, KILL_SECONDS)
    stop_all(data_dir)  # settles those that were killed
    return len(left)


def _wait(data_dir: Path, seconds: float) -> list[Directory]:
    """Look until nobody is alive or the time is over; returns who is alive."""
    deadline, pause = clock.monotonic() + seconds, threading.Event()
    while (alive := [each for each in directories(data_dir) if each.is_alive]) and clock.monotonic() < deadline:
        pause.wait(0.05)
    return alive


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1]).absolute()) else 0)
