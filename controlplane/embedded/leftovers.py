"""What a killed supervisor left behind: processes that carry this data directory's mark. They end before new ones start."""

import os
import signal
import threading
from pathlib import Path

from controlplane.core import clock
from controlplane.embedded.child import MARK

PATIENCE_SECONDS = 5.0


def end_leftovers(data_dir: Path) -> int:
    """End them, politely and then not; returns how many there were. Only where /proc tells of processes."""
    found = _marked_processes(data_dir)
    _signal(found, signal.SIGINT)
    pause, deadline = threading.Event(), clock.monotonic() + PATIENCE_SECONDS
    while (left := _marked_processes(data_dir)) and clock.monotonic() < deadline:
        pause.wait(0.05)
    _signal(left, signal.SIGKILL)
    while _marked_processes(data_dir) and clock.monotonic() < deadline + PATIENCE_SECONDS:
        pause.wait(0.05)
    return len(found)


def _marked_processes(data_dir: Path) -> list[int]:
    mark = f"{MARK}={data_dir}".encode()
    folders = Path("/proc").glob("[0-9]*") if Path("/proc").is_dir() else ()
    return [int(folder.name) for folder in folders if folder.name != str(os.getpid()) and _carries(folder, mark)]


def _carries(folder: Path, mark: bytes) -> bool:
    try:
        is_zombie = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return not is_zombie and mark in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
