"""Ending a future that somebody may wait for, by whoever knows how it ended."""

import asyncio


def end(done: "asyncio.Future[None]", fault: BaseException | None) -> None:
    """Tell who waits: all is well, or the fault; nothing to one who has gone, or was told before."""
    if done.done():
        return
    if fault is None:
        done.set_result(None)
    else:
        done.set_exception(fault)
