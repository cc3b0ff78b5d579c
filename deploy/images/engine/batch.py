"""The engine in real time: its steps last as long as it says, times the scale, and its tokens reach who waits for them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from core import Engine, Speed, Token, Work
from metrics import Meters


class Batch:
    """Runs one engine; one for each process. A request's queue has one item for each token, True for the last."""

    def __init__(self, speed: Speed, time_scale: float) -> None:
        self.engine = Engine(speed)
        self.meters = Meters()
        self.now = 0.0  # seconds of the engine's own time, in which it never idles
        self._scale = time_scale
        self._has_work = asyncio.Event()
        self._readers: dict[int, tuple[Work, asyncio.Queue[bool], list[float]]] = {}
        self._keys = count()

    @contextmanager
    def request(self, work: Work) -> "Iterator[asyncio.Queue[bool]]":
        """Let the engine work on a request for as long as the context lasts; raises ValueError when it never fits."""
        key = next(self._keys)
        work.key, work.arrived = key, self.now
        self.engine.add(work)
        tokens: asyncio.Queue[bool] = asyncio.Queue()
        self._readers[key] = (work, tokens, [])
        self._has_work.set()
        try:
            yield tokens
        finally:
            del self._readers[key]
            self.engine.abort(key)

    async def run(self) -> None:
        """Step for as long as there is work, then wait for more."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self.engine.is_idle:
                self._has_work.clear()
                await self._has_work.wait()
                due = loop.time()
            seconds, tokens = self.engine.step()
            due += seconds * self._scale
            # By the clock and not by the sleep: a late wake-up shortens the next step. Far behind, it lets go.
            await asyncio.sleep(max(due - loop.time(), 0.0))
            due = max(due, loop.time() - 1.0)
            self.now += seconds
            for token in tokens:
                self._hand_over(token)

    def _hand_over(self, token: Token) -> None:
        found = self._readers.get(token.key)  # type: ignore[call-overload]
        if found is None:
            return
        work, tokens, last = found
        if last:
            self.meters.between_tokens.add(self.now - last[0])
        else:
            self.meters.first_token.add(self.now - work.arrived)
        last[:] = [self.now]
        if token.is_last:
            self.meters.whole_request.add(self.now - work.arrived)
        tokens.put_nowait(token.is_last)
