"""Exclusive file locks with a deadline.

`flock` belongs to the open file, not to the process: it ends with the last process that has the file open, however that
process ends, and a child that inherits the descriptor inherits the lock.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.core import clock

POLL_SECONDS = 0.005


@contextmanager
def held(path: Path, timeout_seconds: float) -> Iterator[int]:
    """Hold the lock on `path` and yield its descriptor; raises TimeoutError when others keep it for too long.

    The file is closed at the end and never unlocked: a child that inherited it goes on holding the lock.
    """
    deadline = clock.monotonic() + timeout_seconds
    pause = threading.Event()
    with open(path, "w") as lock:
        while not _take(lock.fileno(), fcntl.LOCK_EX):
            if clock.monotonic() >= deadline:
                raise TimeoutError(f"{path.name} is held by another process")
            pause.wait(POLL_SECONDS)
        yield lock.fileno()


def is_held(path: Path) -> bool:
    """Whether anybody holds the lock on `path`; a file that does not exist is not locked."""
    try:
        with open(path) as lock:
            return not _take(lock.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _take(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
