"""Calls made at about the same time, done as one: N coroutines that each need a statement cost one of them.

    idle ----> a call comes: its batch starts at once
      ^          | more come meanwhile: they gather
      |          v
      +------- done: what has gathered is the next batch; where this one had company, once ENOUGH have gathered or a
               moment is over

A lone call is a batch of one and waits for nobody. A batch that a peer refuses is tried item by item, so that one bad item
fails alone; any other fault is everybody's. A caller that is cancelled leaves its item where it is. However the work ends,
nobody is left waiting.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

ENOUGH = 16
"""So many are not worth waiting for more."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Together(Generic[Item, Result]):
    """Does `work` for whoever calls, at most `limit` items at a time; for one event loop.

    `work` takes items and returns their results in the same order. `refusals` are the errors by which it says that it is
    an item that is at fault. After a batch of several the next one gathers for `gather_seconds`.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        limit: int,
        refusals: tuple[type[Exception], ...] = (),
        gather_seconds: float = 0.0,
    ) -> None:
        self._work = work
        self._limit = limit
        self._refusals = refusals
        self._gather_seconds = gather_seconds
        self._gathered: _Batch[Item, Result] = []
        self._working: asyncio.Task[None] | None = None
        self._enough = asyncio.Event()

    async def __call__(self, item: Item) -> Result:
        """The item's result; raises what `work` raised."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._gathered.append((item, done))
        if len(self._gathered) >= ENOUGH:
            self._enough.set()
        if self._working is None:
            self._working = asyncio.create_task(self._empty())
        return await done

    async def _empty(self) -> None:
        batch: _Batch[Item, Result] = []
        try:
            while self._gathered:
                batch, self._gathered = self._gathered[: self._limit], self._gathered[self._limit :]
                await self._do(batch)
                if len(batch) > 1 and self._gather_seconds:
                    await self._gather()
        finally:
            self._working, left = None, (*batch, *self._gathered)
            self._gathered = []
            # Nobody is left, but when this task is cancelled, with the loop that it runs on, or ends by a fault of its own.
            for _, done in left:
                done.cancel()

    async def _gather(self) -> None:
        """Wait for company."""
        if len(self._gathered) >= ENOUGH:
            return
        self._enough.clear()
        try:
            async with asyncio.timeout(self._gather_seconds):
                await self._enough.wait()
        except TimeoutError:
            return

    async def _do(self, batch: "_Batch[Item, Result]") -> None:
        try:
            results = zip(batch, list(await self._work([item for item, _ in batch])), strict=True)
            settled = [(done, result) for (_, done), result in results]
        except Exception as error:  # noqa: BLE001 - handed to the callers, who know what to do with it
            await self._after_fault(batch, error)
        else:
            for done, result in settled:
                if not done.done():
                    done.set_result(result)

    async def _after_fault(self, batch: "_Batch[Item, Result]", error: Exception) -> None:
        if isinstance(error, self._refusals) and len(batch) > 1:
            for each in batch:
                await self._do([each])
        else:
            _fail(batch, error)


_Batch = list[tuple[Item, "asyncio.Future[Result]"]]


def _fail(batch: "_Batch[Item, Result]", error: Exception) -> None:
    """Raise `error` at every caller: an instance of its own for each, since each adds its traceback to it."""
    for _, done in batch:
        if not done.done():
            done.set_exception(error if len(batch) == 1 else type(error)(*error.args))
