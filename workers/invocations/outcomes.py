"""Telling an invocation's outcome: its object in the store, its row, and the messages that its topics get.

    completed   intent --> output object --> row, messages
    failed      failure --> failure object, where there is a place for it --> row, messages

The output object and the failure object are never both written: a failure is decided only after looking for an output
that an earlier attempt may have stored. A lost lease ends the work without a trace.

A store that is away is waited for here, with the lease held, the answer in its file and the instance's slot free: the
model has done its part and is not asked again. If this worker dies meanwhile, its answer dies with it; whoever takes the
invocation over looks for the object first. A store that says no is believed after REFUSALS_LIMIT times.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from controlplane.core import clock
from controlplane.invocations import messages
from controlplane.invocations.delivery import SUCCESS_TOPIC_GETS_ANSWER, Delivery
from controlplane.invocations.steps import Step
from workers.invocations import measures
from workers.invocations.leased import Leased, Noted
from workers.invocations.ledger import Ledger
from workers.invocations.measures import MICROSECONDS, MILLISECONDS, Measures, place_of
from workers.invocations.plan import REFUSALS_LIMIT, Fail, Kind, clean, store_pause, storing_until
from workers.invocations.store import Store, StoreAway, StoreFailed, StoreRefused

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class End:
    """How a request without an answer ends: its state, the step that says so, and the metric that counts it, if any.

    Unless `is_known` the step says why, too; where it is, an earlier step has said so.
    """

    state: str
    step: Step
    measure: str
    is_known: bool = False


_FAILED = End("failed", Step.FAILED, measures.FAILURES)
_ENDS = {
    Kind.EXPIRED: End("expired", Step.EXPIRED, measures.EXPIRED),
    # Neither the model's nor the service's doing, and not processed: it counts as nothing.
    Kind.CANCELLED: End("cancelled", Step.CANCELLED, "", is_known=True),
}


@dataclass(frozen=True)
class Answer:
    """A model's good answer, in memory or in a file, and when it was asked and answered."""

    body: IO[bytes] | bytes
    content_type: str
    status: int
    sent_at: datetime
    answered_at: datetime
    detail: str = ""


@dataclass(frozen=True)
class Outcomes:
    """Tells outcomes; `told` is called when messages are to be sent, `freed` when a request has left its instance, with
    `pause` so many seconds are waited.
    """

    ledger: Ledger
    store: Store
    measures: Measures
    region: str
    told: Callable[[], None] = lambda: None
    freed: Callable[[Leased], None] = lambda leased: None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def complete(self, leased: Leased, answer: Answer) -> None:
        """Keep the answer as the output object and record the success, or, where it cannot be kept, the failure."""
        sent = leased.step(Step.SENT, at=answer.sent_at)
        answered = leased.step(Step.ANSWERED, f"{answer.status} {answer.detail}".strip(), answer.answered_at)
        if not await self.ledger.start_storing(leased, sent, answered):
            await self.ledger.tell_dropped(leased)
            return
        self.freed(leased)
        began = clock.monotonic()
        fault = await self._keep_putting(leased, leased.output_location, answer.body, answer.content_type)
        place = place_of(leased)
        if fault is not None:
            self.measures.count(place, measures.UPLOAD_FAILURES)
            await self._after_lost_answer(leased, fault)
            return
        self.measures.count(place, measures.UPLOAD_LATENCY, (clock.monotonic() - began) * 1e6, MICROSECONDS)
        await self._completed(leased, answer.content_type, _small(answer.body) if _is_included(leased) else None)

    async def complete_found(self, leased: Leased) -> bool:
        """Record the success of an invocation whose output is there already; False when it is not. Raises StoreAway."""
        if not await self.store.has(leased.output_location, leased.id):
            return False
        content_type, body = "", None
        if leased.delivery:
            try:
                limit = messages.ANSWER_LIMIT_BYTES if _is_included(leased) else 0
                content_type, body = await self.store.read(leased.output_location, limit)
            except StoreRefused as error:
                log.warning("invocation %s: its output is there and cannot be read for its message: %s", leased.id, error)
        await self._completed(leased, content_type, body)
        return True

    async def fail(
        self, leased: Leased, failure: Fail, steps: list[Noted] | None = None, answer: bytes | None = None
    ) -> None:
        """Record the failure, its object first; `answer` is the body that the model failed with, if any."""
        if leased.failure_location:
            if not await self.ledger.decide_failure(leased, failure):
                return
            body = clean(failure.text).encode("utf-8", "replace")
            fault = await self._keep_putting(leased, leased.failure_location, body, "text/plain")
            if fault is not None:
                self.measures.count(place_of(leased), measures.UPLOAD_FAILURES)
                log.error("invocation %s failed, and its failure could not be stored: %s", leased.id, fault)
        await self._failed(leased, failure, steps or [], answer)

    async def _after_lost_answer(self, leased: Leased, fault: str) -> None:
        """The answer cannot be kept: that is the failure, unless the store took it after all."""
        log.error("invocation %s: its output could not be stored: %s", leased.id, fault)
        try:
            if await self.complete_found(leased):
                return
        except StoreFailed as error:
            log.warning("invocation %s: nobody can say whether its output is there: %s", leased.id, error)
        await self.fail(leased, Fail(f"The model's answer could not be stored. {fault}", Kind.OUTPUT_STORE))

    async def _keep_putting(self, leased: Leased, location: str, body: IO[bytes] | bytes, content_type: str) -> str | None:
        """Put the object, however often it takes; None once it is there, else why it never will be."""
        until = storing_until(leased.expires_at, clock.now())
        kms_key_id = Delivery.of(leased.delivery).kms_key_id if leased.delivery else ""
        tries = refusals = 0
        while True:
            try:
                await self.store.put(location, body, content_type, leased.id, kms_key_id)
            except StoreFailed as error:
                tries += 1
                refusals = 0 if isinstance(error, StoreAway) else refusals + 1
                if refusals >= REFUSALS_LIMIT or clock.now() >= until:
                    return str(error)
                log.warning("invocation %s: %s (tried %d times, and again)", leased.id, error, tries)
                await self.pause(store_pause(tries))
            else:
                return None

    async def _completed(self, leased: Leased, content_type: str, body: bytes | None) -> None:
        ended = clock.now()
        notes: Sequence[messages.Note] = ()
        if leased.delivery:
            notes = messages.of_success(self._request(leased, ended), Delivery.of(leased.delivery), content_type, body)
        if await self.ledger.complete(leased, leased.step(Step.STORED, leased.output_location, ended), notes):
            self._count_end(leased, ended)
            if notes:
                self.told()

    async def _failed(self, leased: Leased, failure: Fail, steps: list[Noted], answer: bytes | None) -> None:
        ended = clock.now()
        end = _ENDS.get(failure.kind, _FAILED)
        step = leased.step(end.step, "" if end.is_known else failure.text, ended)
        request = self._request(leased, ended)
        notes = messages.of_failure(request, Delivery.of(leased.delivery), failure.kind, failure.text, answer)
        if await self.ledger.end(leased, end.state, [*steps, step], notes, failure):
            if end.measure:
                self.measures.count(place_of(leased), end.measure)
                self._count_end(leased, ended)
            if notes:
                self.told()

    def _count_end(self, leased: Leased, ended: datetime) -> None:
        place = place_of(leased)
        self.measures.count(place, measures.PROCESSED)
        total = (ended - leased.queued_at).total_seconds() * 1000
        self.measures.count(place, measures.TOTAL_PROCESSING_TIME, total, MILLISECONDS)

    def _request(self, leased: Leased, ended: datetime) -> messages.Request:
        return messages.Request(
            region=self.region,
            endpoint_name=leased.endpoint_name,
            inference_id=leased.inference_id,
            content_type=leased.content_type,
            accept=leased.accept,
            input_location=leased.input_location,
            output_location=leased.output_location,
            failure_location=leased.failure_location,
            accepted_at=leased.accepted_at,
            ended_at=ended,
        )


def _is_included(leased: Leased) -> bool:
    return bool(leased.delivery) and SUCCESS_TOPIC_GETS_ANSWER in Delivery.of(leased.delivery).includes


def _small(body: IO[bytes] | bytes) -> bytes | None:
    """The bytes of an answer, None if a message cannot carry them."""
    if not isinstance(body, bytes):
        body.seek(0)
        body = body.read(messages.ANSWER_LIMIT_BYTES + 1)
    return body if len(body) <= messages.ANSWER_LIMIT_BYTES else None
