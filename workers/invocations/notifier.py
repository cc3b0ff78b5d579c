"""Sending what is in the outbox: a loop beside the dispatcher, in each worker.

It wakes when this worker has written a message, and every second in any case. A topic that takes nothing costs the
messages that are for it their pauses, and no inference anything.
"""

import asyncio
import logging

import psycopg
from psycopg_pool import PoolTimeout

from controlplane.core import clock
from workers.invocations import measures
from workers.invocations.measures import Measures
from workers.invocations.outbox import Letter, Outbox
from workers.invocations.postage import Later, after_failure
from workers.invocations.topics import TopicAway, TopicRefused, Topics

SCAN_SECONDS = 1.0
BATCH = 32

log = logging.getLogger(__name__)


class Notifier:
    """Sends messages until stopped."""

    def __init__(self, outbox: Outbox, topics: Topics, counted: Measures) -> None:
        self._outbox = outbox
        self._topics = topics
        self._measures = counted
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There is something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Send what is due, until cancelled; a database that is away is waited for, and no message ends the loop."""
        while True:
            self._wake.clear()
            try:
                while await self.send_due() == BATCH:
                    continue
            except (psycopg.Error, PoolTimeout, OSError) as error:
                log.warning("the outbox cannot be reached, trying again: %s", error)
            except Exception:
                log.exception("a message could not be handled; it is due again when its lease is over")
            await self._pause()

    async def send_due(self) -> int:
        """Send one batch of what is due; returns its size."""
        letters = await self._outbox.take(BATCH)
        await asyncio.gather(*(self._send(letter) for letter in letters))
        return len(letters)

    async def _send(self, letter: Letter) -> None:
        try:
            await self._topics.publish(letter.topic, letter.message)
        except TopicRefused as error:
            await self._after_failure(letter, str(error), is_refusal=True)
        except TopicAway as error:
            await self._after_failure(letter, str(error), is_refusal=False)
        else:
            await self._outbox.sent(letter)

    async def _after_failure(self, letter: Letter, error: str, *, is_refusal: bool) -> None:
        step = after_failure(
            is_test=letter.kind == "test",
            is_refusal=is_refusal,
            attempts=letter.attempts,
            created_at=letter.created_at,
            now=clock.now(),
        )
        if isinstance(step, Later):
            log.warning("a message for %s was not taken, tried again at %s: %s", letter.topic, step.due_at, error)
            await self._outbox.later(letter, step.due_at, error)
        elif await self._outbox.give_up(letter, error):
            log.error("a message for %s was not taken and is given up: %s", letter.topic, error)
            place = (letter.account_id, letter.endpoint_name, letter.variant_name)
            self._measures.count(place, measures.NOTIFICATION_FAILURES)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(SCAN_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
