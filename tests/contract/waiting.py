"""Waiting for real processes, on any machine: also on one that stands still for a while, as busy ones do.

    look ---- something ----> done
     ^  |
     |  nothing, and time is left
     |  v
    pause: counts as it lasts, but never for more than LONGEST_STEP_SECONDS

Bounds of time are counted in the same way (`moving`).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

LONGEST_STEP_SECONDS = 1.0
"""What takes longer is the machine's doing: it stood still."""

TICK_SECONDS = 0.1


def wait(look: Callable[[], Any], seconds: float = 30.0, pause_seconds: float = 0.02) -> Any:
    """What `look` gives once it gives something; AssertionError when it has given nothing for so long.

    The last look comes after all that time, so that what happened meanwhile is seen.
    """
    left, pause = seconds, threading.Event()
    while True:
        began = monotonic()
        if found := look():
            return found
        if left <= 0:
            raise AssertionError(f"not within {seconds} s")
        pause.wait(pause_seconds)
        left -= counted(began)


def counted(since: float) -> float:
    """How many seconds of this step count."""
    return min(monotonic() - since, LONGEST_STEP_SECONDS)


@contextmanager
def moving() -> Iterator[Callable[[], float]]:
    """Gives how many seconds have passed in which the machine moved, for bounds that hold on one that stands still, too."""
    over, passed = threading.Event(), [0.0]

    def tick() -> None:
        is_over = False
        while not is_over:
            began = monotonic()
            is_over = over.wait(TICK_SECONDS)
            passed[0] += counted(began)

    ticking = threading.Thread(target=tick, name="moving", daemon=True)
    ticking.start()
    try:
        yield lambda: passed[0]
    finally:
        over.set()
        ticking.join()


def child_of(pid: int) -> int:
    """The one child process of `pid`, once it has one."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return int(wait(lambda: children.read_text().split())[0])
