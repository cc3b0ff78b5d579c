"""`python -m workers.providers.local.stop DATA_DIR`: end every local instance and wait until all are gone."""

import sys
import threading
from pathlib import Path

from controlplane.core import clock
from workers.providers.local.processes import directories, stop_all

PATIENCE_SECONDS = 35.0
"""The containers' grace of 30 s and a little."""


def main(data_dir: Path) -> None:
    """Ask once, then look until nobody is alive or patience ends."""
    stop_all(data_dir)
    deadline = clock.monotonic() + PATIENCE_SECONDS
    pause = threading.Event()
    while any(each.is_alive for each in directories(data_dir)) and clock.monotonic() < deadline:
        pause.wait(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
