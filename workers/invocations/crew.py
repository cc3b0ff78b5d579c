"""What runs on a dispatcher's loop: a task for each leased request, and how many more there is room for.

    taken ----> runs at an instance ----> its slot is free (the model has answered) ----> it leaves
          \\---> tells a failure for which no model is asked, in a place of its own ----> it leaves

One that leaves by a fault, whatever it was, or is stopped with the worker, has no outcome: it is `abandoned`, for others to
take.
Whoever is told of free slots and of leaving (the appetite) decides when more is claimed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from controlplane.core import clock
from controlplane.gateway.counting import Call
from workers.invocations.appetite import Appetite
from workers.invocations.leased import Leased
from workers.invocations.plan import room_for

RUNNING_LIMIT = 512
"""Invocations that this loop runs at once; of them one endpoint gets at most as many as stay free (`plan.room_for`)."""

TELLING_LIMIT = 200
"""Failures, decided without a model, that are told at once; they have places of their own."""

GRACE_SECONDS = 10.0
"""How long invocations that run when the worker is stopped may take to end; the others are abandoned."""

STOP_SECONDS = 1.0
"""How long those may take to notice it."""

AWAY = (psycopg.Error, PoolTimeout, OSError)
"""What the database's absence looks like."""

log = logging.getLogger(__name__)

Run = Callable[[Leased, str, Call], Awaitable[None]]


class Crew:
    """Runs leased requests by `run`; calls `left` whenever one has left or a slot is free.

    `abandoned` are the leases of those that have left without an outcome, until somebody has given them back.
    """

    def __init__(self, run: Run, appetite: Appetite, left: Callable[[], None]) -> None:
        self._run = run
        self._appetite = appetite
        self._left = left
        self._tasks: dict[asyncio.Task[None], Leased] = {}
        self._held: Counter[UUID] = Counter()
        self._slotless: set[asyncio.Task[None]] = set()
        self._stopped: set[asyncio.Task[None]] = set()
        self._telling = 0
        self.abandoned: list[Leased] = []

    @property
    def size(self) -> int:
        """How many run, or tell."""
        return len(self._tasks)

    @property
    def leases(self) -> list[Leased]:
        """What is leased to them."""
        return list(self._tasks.values())

    @property
    def room_to_tell(self) -> int:
        """How many more failures may be told."""
        return max(TELLING_LIMIT - self._telling, 0)

    def held(self, endpoint_id: UUID) -> int:
        """How many of the endpoint's requests run."""
        return self._held[endpoint_id]

    def room(self, endpoint_id: UUID) -> int:
        """How many more of the endpoint's requests may run."""
        return room_for(self._held[endpoint_id], RUNNING_LIMIT - (len(self._tasks) - self._telling))

    def take(self, leased: Leased, address: str, call: Call) -> None:
        """Run it at the instance of this address."""
        self._held[leased.endpoint_id] += 1
        self._start(leased, address, call, self._let_go)

    def tell(self, claimed: Iterable[Leased]) -> None:
        """Tell failures for which no model is asked."""
        for leased in claimed:
            self._telling += 1
            self._start(leased, "", Call(clock.monotonic()), self._told)

    def freed(self, leased: Leased) -> None:
        """The request of the task that runs now has left its instance."""
        if (task := asyncio.current_task()) is not None:
            self._slotless.add(task)
        self._appetite.freed(leased.endpoint_id, clock.monotonic())
        self._left()

    def drop_lost(
        self, asked_for: Iterable[Leased], still_held: set[tuple[UUID, UUID]], is_ending: Callable[[Leased], bool]
    ) -> None:
        """Stop those whose lease is somebody else's now: of what was asked for, all but those (id and token) still held.

        What has been taken since it was asked is as it was.
        """
        lost = {(leased.id, leased.lease_token) for leased in asked_for} - still_held
        for task, leased in self._tasks.items():
            if (leased.id, leased.lease_token) in lost and not task.done() and not is_ending(leased):
                log.warning("invocation %s: the lease was lost", leased.id)
                self._stop(task)

    async def let_end(self) -> None:
        """Wait until all have left, or their grace is over."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
        if late := dict(self._tasks):
            self.abandoned.extend(late.values())
            for task in late:
                self._stop(task)
            await asyncio.wait(late, timeout=STOP_SECONDS)

    def _stop(self, task: "asyncio.Task[None]") -> None:
        self._stopped.add(task)
        task.cancel()

    def _start(self, leased: Leased, address: str, call: Call, leaves: "Callable[[asyncio.Task[None]], None]") -> None:
        task = asyncio.create_task(self._run_one(leased, address, call))
        self._tasks[task] = leased
        task.add_done_callback(leaves)

    async def _run_one(self, leased: Leased, address: str, call: Call) -> None:
        try:
            await self._run(leased, address, call)
        except AWAY as error:
            log.warning("invocation %s: what became of it could not be written: %s", leased.id, error)
            self.abandoned.append(leased)

    def _let_go(self, task: "asyncio.Task[None]") -> None:
        leased, now = self._ended(task), clock.monotonic()
        if task in self._slotless:
            self._slotless.discard(task)
        else:
            self._appetite.freed(leased.endpoint_id, now)
        self._held[leased.endpoint_id] -= 1
        held = self._held[leased.endpoint_id]
        if not held:
            del self._held[leased.endpoint_id]
        self._appetite.ended(leased.endpoint_id, held=held, now=now)
        self._left()

    def _told(self, task: "asyncio.Task[None]") -> None:
        self._ended(task)
        self._telling -= 1
        self._left()

    def _ended(self, task: "asyncio.Task[None]") -> Leased:
        leased = self._tasks.pop(task)
        if task in self._stopped:
            self._stopped.discard(task)
        elif task.cancelled() or task.exception() is not None:
            fault = None if task.cancelled() else task.exception()
            log.error("invocation %s failed in the dispatcher", leased.id, exc_info=fault)
            self.abandoned.append(leased)
        return leased
