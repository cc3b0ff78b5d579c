"""Bounds on waiting: the time spent waiting for one peer, added up, and nothing else.

A slow client must not use up the time that a container has, nor a slow container that of a client, so each wait is
measured by itself. A peer that sends one byte a second runs out of time like one that sends none.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from controlplane.core import clock

T = TypeVar("T")


class Patience:
    """Seconds that may still be spent waiting for a peer."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """The result of `awaitable`; raises TimeoutError, and cancels it, once no time is left."""
        since = clock.monotonic()
        try:
            async with asyncio.timeout(max(self._left, 0)):
                return await awaitable
        finally:
            self._left -= clock.monotonic() - since

    async def over(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces, each waited for in the time that is left; raises TimeoutError."""
        while piece := await self.wait(anext(pieces, b"")):
            yield piece
