"""Where everything in this process is at the moment: each thread, and each task of an event loop with all it awaits.

For the log of a process that does nothing any more, so that somebody can say why: by itself, or asked by SIGUSR1.
"""

import asyncio
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)

Loop = asyncio.AbstractEventLoop | None


def _running_loop() -> Loop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def tell_when_asked(loop: Callable[[], Loop] = _running_loop) -> None:
    """From now on SIGUSR1 has it written to the log; `loop` gives the loop of interest. For the main thread."""
    signal.signal(signal.SIGUSR1, lambda *_: tell("asked where everything is", loop()))


def tell(why: str, loop: Loop = None) -> None:
    """Write to the log `why`, and where everything is: line by line, since a record is one line."""
    for line in (f"{why}:", *everything(loop).splitlines(), "that is everything"):
        log.warning("%s", line)


def everything(loop: Loop = None) -> str:
    """The stacks of all threads, and of the tasks of `loop`, which may be another thread's."""
    parts = [*_of_threads()]
    if loop is not None:
        parts += _of_tasks(loop)
    return "\n".join(parts)


def _of_threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame)).rstrip()}"


def _of_tasks(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        frames, last = _awaited(task.get_coro())
        lines = [
            f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}' for frame in frames
        ]
        yield "\n".join([f"task {task.get_name()}:", *lines, f"  awaits {last!r}"])


def _awaited(coroutine: Any) -> tuple[list[FrameType], object]:
    """The frames of a suspended coroutine from the outermost in, and what the innermost awaits."""
    frames, awaited = [], coroutine
    while awaited is not None:
        for kind in ("cr", "gi", "ag"):
            if (frame := getattr(awaited, f"{kind}_frame", None)) is not None:
                frames.append(frame)
                awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
                break
        else:
            break
    return frames, awaited
