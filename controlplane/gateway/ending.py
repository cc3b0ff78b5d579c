"""Ending background work for certain."""

import asyncio

AGAIN_SECONDS = 1.0
"""After so long a task that has not ended is cancelled again; what it does in its end is to take less."""


async def end(task: "asyncio.Task[None]") -> None:
    """Cancel a task until it has ended.

    Once is not enough: a wait that is over at the very moment of the cancellation (`asyncio.wait_for` before Python 3.12,
    and with it psycopg's pool, which has just got a connection) gives its result and forgets that it was cancelled.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
