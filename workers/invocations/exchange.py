"""A small request and its answer over a kept connection, at little cost: one future, one timer, no task.

begun ---> the answer is complete, and small enough for memory: the most usual end
      ---> larger than that, or endless: whoever began reads on
      ---> broken off, or its time is over: an UpstreamError
"""

import asyncio

from controlplane.routing.upstream import (
    HIGH_WATER_BYTES,
    Exchange,
    TimedOut,
    UpstreamClient,
    UpstreamRequest,
)


class _Awaited:
    """An exchange that somebody waits for."""

    def __init__(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._seconds = seconds
        self.opened: Exchange | None = None
        self.there: asyncio.Future[None] = loop.create_future()
        self.timer = loop.call_later(seconds, self._late)

    def arrived(self) -> None:
        """Something of the answer has come, or nothing more will."""
        if self.opened is None or self.there.done():
            return
        incoming = self.opened.incoming
        if incoming.error is not None:
            self.there.set_exception(incoming.error)
        elif incoming.complete or incoming.buffered > HIGH_WATER_BYTES:
            self.there.set_result(None)

    def _late(self) -> None:
        if not self.there.done():
            self.there.set_exception(TimedOut(f"no answer within {self._seconds:g} s"))


async def exchange(client: UpstreamClient, address: str, request: UpstreamRequest, seconds: float) -> Exchange | None:
    """The exchange once its answer is complete or more than HIGH_WATER_BYTES of it are there; to be closed in any case.

    None where there is no kept connection: nothing was sent. Raises UpstreamError.
    """
    awaited = _Awaited(seconds)
    try:
        awaited.opened = opened = client.begin(address, request, awaited.arrived)
        if opened is not None:
            await awaited.there
    except BaseException:
        if awaited.opened is not None:
            awaited.opened.close()
        raise
    finally:
        awaited.timer.cancel()
    return opened
