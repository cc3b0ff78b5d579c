"""One invocation, from its lease to its outcome.

    output already there? --yes--> completed
      | no
    call the instance --> Store: intent, output object, completed
                      --> Retry: back into the queue
                      --> Fail:  text decided, failure object, failed (or expired)

The output object and the failure object are never both written: a failure is decided only after looking for an output
that an earlier attempt may have stored. A lost lease ends the work without a trace.
"""

import asyncio
import logging
import tempfile
from dataclasses import dataclass
from typing import IO

from controlplane.core import clock
from controlplane.gateway.counting import Call, Counts
from controlplane.routing.upstream import (
    ConnectFailed,
    TimedOut,
    Timeouts,
    UpstreamClient,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
)
from workers.invocations.plan import (
    EXPIRED_TEXT,
    TEXT_LIMIT,
    Fail,
    Retry,
    Store,
    after_answer,
    after_fault,
    after_no_connection,
    after_timeout,
)
from workers.invocations.queue import Leased, Queue
from workers.invocations.store import Store as OutputStore
from workers.invocations.store import StoreFailed

SPOOL_BYTES = 8 * 1024 * 1024
"""An answer larger than this waits on disk for its upload."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answered:
    """What came of asking a model: what to do next, and its answer's status (0 = none came, None = it was not reached)."""

    step: Store | Retry | Fail
    status: int | None
    content_type: str = ""


@dataclass
class Runner:
    """Runs invocations on one event loop."""

    queue: Queue
    store: OutputStore
    upstream: UpstreamClient
    counts: Counts

    async def run(self, leased: Leased, address: str, call: Call) -> None:
        """Bring one leased invocation to its outcome, or back into the queue; an attempt is counted as `call`."""
        try:
            if leased.is_storing and await self.store.has(leased.output_location, leased.id):
                await self.queue.end(leased, "completed")
            elif leased.outcome_text:
                await self._fail(leased, leased.outcome_text)
            else:
                await self._attempt(leased, address, call)
        except StoreFailed as error:
            await self._after_store_fault(leased, str(error))

    async def _attempt(self, leased: Leased, address: str, call: Call) -> None:
        body = await self.queue.payload(leased)
        request = UpstreamRequest(b"POST", b"/invocations", _headers(leased), body)
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            call.ask()
            answered = await self._ask(leased, address, request, spool)
            self._count(call, answered.status)
            step = answered.step
            if isinstance(step, Store):
                spool.seek(0)
                await self._store(leased, spool, answered.content_type)
            elif isinstance(step, Retry):
                log.info("invocation %s: %s Tried again at %s.", leased.id, step.why, step.due_at)
                await self.queue.retry(leased, step.due_at, is_attempt=step.is_attempt)
            else:
                await self._fail(leased, step.text)

    def _count(self, call: Call, status: int | None) -> None:
        if status is None:
            return
        call.answered()
        if not 200 <= status < 300:
            call.fail(status)
        self.counts.add(call)

    async def _ask(self, leased: Leased, address: str, call: UpstreamRequest, spool: IO[bytes]) -> Answered:
        """Call the instance; what came of it. The limit is on the whole call."""
        try:
            async with asyncio.timeout(leased.timeout_seconds):
                answer = await self.upstream.send(address, call, Timeouts(response=leased.timeout_seconds))
                try:
                    step = await self._take_answer(leased, answer, spool)
                finally:
                    answer.close()
        except (TimeoutError, TimedOut):
            return Answered(after_timeout(leased.timeout_seconds), 0)
        except ConnectFailed as error:
            return Answered(after_no_connection(f"The model was not called: {error}.", clock.now()), None)
        except UpstreamError as error:
            return Answered(after_fault(f"The model gave no answer: {error}.", leased.attempts, clock.now()), 0)
        return Answered(step, answer.status, _content_type(answer))

    async def _take_answer(self, leased: Leased, answer: UpstreamResponse, spool: IO[bytes]) -> Store | Retry | Fail:
        """Read the answer into `spool`, or the start of it into a reason."""
        text = b""
        async for chunk in answer.chunks():
            if 200 <= answer.status < 300:
                spool.write(chunk)
            else:
                text = (text + chunk)[:TEXT_LIMIT]
        return after_answer(answer.status, text.decode("utf-8", "replace"), leased.attempts, clock.now())

    async def _store(self, leased: Leased, output: IO[bytes], content_type: str) -> None:
        if not await self.queue.start_storing(leased):
            return
        await self.store.put(leased.output_location, output, content_type, leased.id)
        await self.queue.end(leased, "completed")

    async def _fail(self, leased: Leased, text: str) -> None:
        if not await self.queue.decide_failure(leased, text):
            return
        if leased.failure_location:
            await self.store.put(leased.failure_location, text.encode(), "text/plain", leased.id)
        await self.queue.end(leased, "expired" if text == EXPIRED_TEXT else "failed")

    async def _after_store_fault(self, leased: Leased, why: str) -> None:
        """The store refused or is away: try again later, as often as an attempt is allowed; then it has failed.

        The failure goes to its own location, which may be another bucket, unless the output may be there after all.
        """
        step = after_fault(why, leased.attempts, clock.now())
        if isinstance(step, Retry):
            await self.queue.retry(leased, step.due_at)
            return
        log.error("invocation %s: its outcome could not be stored: %s", leased.id, why)
        text = leased.outcome_text or step.text
        try:
            if await self.store.has(leased.output_location, leased.id):
                await self.queue.end(leased, "completed")
            else:
                await self._fail(leased, text)
        except StoreFailed:  # nobody can say, or nothing can be written: the row alone has the outcome
            if await self.queue.decide_failure(leased, text):
                await self.queue.end(leased, "failed")


def _content_type(answer: UpstreamResponse) -> str:
    """The answer's content type, if it can be kept as an object's: stores take ASCII only."""
    text = (answer.header(b"content-type") or b"").decode("latin-1")
    return text if text.isascii() and text.isprintable() else ""


def _headers(leased: Leased) -> list[tuple[bytes, bytes]]:
    pairs = {
        b"content-type": leased.content_type,
        b"accept": leased.accept,
        b"x-amzn-sagemaker-custom-attributes": leased.custom_attributes,
        b"x-amzn-sagemaker-inference-id": leased.inference_id,
    }
    return [(name, value.encode("latin-1")) for name, value in pairs.items() if value]
