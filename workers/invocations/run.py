"""One invocation, from its lease to its outcome.

    output already there? --yes--> completed
      | no
    failure decided?      --yes--> told
      | no
    fetch the payload     --> missing, refused, too large: failed
      |                   --> away: back into the queue, not an attempt
      |                   --> it took long, and the lease is lost or cannot be renewed: nothing more is done here
    call the instance     --> Store: intent, output object, completed
                          --> Retry: back into the queue; where it was not reached, for another instance
                          --> Fail:  failure decided, failure object, failed (or expired)

How outcomes are told, and what becomes of an answer while the store is away, is in `outcomes`.
"""

import logging
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO
from uuid import UUID

from controlplane.core import clock
from controlplane.gateway.counting import Call, Counts
from controlplane.invocations.steps import Step
from controlplane.routing.upstream import UpstreamClient
from workers.invocations import measures, plan
from workers.invocations.ask import Payload, Spool, ask
from workers.invocations.inputs import InputAway, InputFault, Inputs
from workers.invocations.leased import Leased, Noted
from workers.invocations.ledger import Ledger
from workers.invocations.measures import MICROSECONDS, MILLISECONDS, Measures, place_of
from workers.invocations.outcomes import Answer, Outcomes
from workers.invocations.plan import Fail, Kind, Retry, Store, after_fault, after_store_away, elsewhere
from workers.invocations.reach import Reach
from workers.invocations.store import StoreAway
from workers.invocations.timetable import RENEW_SECONDS

SPOOL_BYTES = 1024 * 1024
"""A payload or an answer larger than this waits on disk."""

log = logging.getLogger(__name__)


async def _nobody(instance_id: UUID) -> None:
    """There is no other dispatcher to tell."""


@dataclass(frozen=True)
class Runner:
    """Runs invocations on one event loop; `tell_others` is called with an instance that could not be reached."""

    ledger: Ledger
    outcomes: Outcomes
    inputs: Inputs
    upstream: UpstreamClient
    counts: Counts
    measures: Measures
    reach: Reach = field(default_factory=Reach)
    tell_others: Callable[[UUID], Awaitable[None]] = _nobody

    async def run(self, leased: Leased, address: str, call: Call) -> None:
        """Bring one leased invocation to its outcome, or back into the queue; an attempt is counted as `call`."""
        try:
            if leased.is_storing and await self.outcomes.complete_found(leased):
                return
        except StoreAway as error:
            await self._retry(leased, after_store_away(str(error), leased.queued_at, clock.now()))
            return
        if leased.failure is not None:
            await self.outcomes.fail(leased, leased.failure)
            return
        try:
            await self._attempt(leased, address, call)
        except OSError as error:
            await self._after_disk_fault(leased, error)

    async def _attempt(self, leased: Leased, address: str, call: Call) -> None:
        with ExitStack() as files:

            def spool() -> IO[bytes]:
                return files.enter_context(tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES))

            began = clock.monotonic()
            try:
                payload = await self._payload(leased, spool)
            except InputFault as fault:
                self.measures.count(place_of(leased), measures.DOWNLOAD_FAILURES)
                await self.outcomes.fail(leased, Fail(str(fault), fault.kind))
                return
            except InputAway as fault:
                why = f"The payload cannot be fetched now: {fault}."
                await self._retry(leased, after_store_away(why, leased.queued_at, clock.now()))
                return
            if clock.monotonic() - began > RENEW_SECONDS and not await self.ledger.renew([leased]):
                return  # fetching it took so long that somebody else runs the request by now
            await self._ask(leased, address, call, payload, spool)

    async def _after_disk_fault(self, leased: Leased, error: OSError) -> None:
        """The payload or the answer had no room here: another worker, or this one later, may have some."""
        log.error("invocation %s: this worker's disk failed: %s", leased.id, error)
        why = f"The worker could not keep the payload or the answer: {error.strerror or error}."
        step = after_fault(why, leased.attempts, clock.now(), Kind.ABANDONED)
        if isinstance(step, Retry):
            await self._retry(leased, step)
        else:
            await self.outcomes.fail(leased, step)

    async def _payload(self, leased: Leased, spool: Spool) -> Payload:
        """The payload: the inline body, or the file with what is at the request's InputLocation."""
        if not leased.input_location:
            if leased.body is None:  # an empty one is kept as such
                raise InputFault(Kind.INPUT_MISSING, "The payload of this request is not kept any more.")
            return Payload(leased.body, len(leased.body))
        began, file = clock.monotonic(), spool()
        size = await self.inputs.fetch(leased.input_location, file)
        seconds = clock.monotonic() - began
        self.measures.count(place_of(leased), measures.DOWNLOAD_LATENCY, seconds * 1e6, MICROSECONDS)
        return Payload(file, size)

    async def _ask(self, leased: Leased, address: str, call: Call, payload: Payload, spool: Spool) -> None:
        sent_at = clock.now()
        call.ask()
        answered = await ask(self.upstream, address, leased, payload, spool)
        answered_at, step = clock.now(), answered.step
        if leased.instance_id is not None and answered.status is None:
            step = await self._after_no_connection(leased.instance_id, step)
        elif leased.instance_id is not None:
            self.reach.succeeded(leased.instance_id)
        self._count(leased, call, answered.status, sent_at)
        if isinstance(step, Store):
            status = answered.status or 0
            await self.outcomes.complete(leased, Answer(answered.body, answered.content_type, status, sent_at, answered_at))
            return
        steps = [leased.step(Step.SENT, at=sent_at)] if answered.status is not None else []
        if answered.status:
            steps.append(leased.step(Step.ANSWERED, str(answered.status), answered_at))
        if isinstance(step, Retry):
            await self._retry(leased, step, steps)
        else:
            await self.outcomes.fail(leased, step, steps, answered.error_body)

    async def _after_no_connection(self, instance_id: UUID, step: plan.Step) -> plan.Step:
        """The same step, told with what becomes of an instance that could not be reached."""
        seconds = self.reach.failed(instance_id, clock.monotonic())
        await self.tell_others(instance_id)
        return elsewhere(step, seconds) if isinstance(step, Retry) else step

    async def _retry(self, leased: Leased, step: Retry, steps: Sequence[Noted] = ()) -> None:
        log.info("invocation %s: %s Tried again at %s.", leased.id, step.why, step.due_at)
        noted = [*steps, leased.step(Step.RETRIED, step.why)]
        await self.ledger.retry(leased, step.due_at, noted, is_attempt=step.is_attempt)

    def _count(self, leased: Leased, call: Call, status: int | None, sent_at: datetime) -> None:
        """Count a call that reached the model, and with the first of them how long the request has waited for it."""
        if status is None:
            return
        if leased.attempts == 1:
            waited = (sent_at - leased.queued_at).total_seconds() * 1000
            self.measures.count(place_of(leased), measures.TIME_IN_BACKLOG, waited, MILLISECONDS)
        call.answered()
        if not 200 <= status < 300:
            call.fail(status)
        self.counts.add(call)
