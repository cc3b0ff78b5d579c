"""Real processes: waiting for them, with a deadline, and finding their children."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def wait(look: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What `look` gives once it gives something."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < deadline:
        if found := look():
            return found
        pause.wait(0.02)
    raise AssertionError(f"not within {seconds} s")


def child_of(pid: int) -> int:
    """The one child process of `pid`, once it has one."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return int(wait(lambda: children.read_text().split())[0])
