"""Asking engines how they do: /metrics of every instance whose variant routes by it, about once a second.

Only variants that were called within USED_SECONDS are asked for; with none of them the work rests. At most AT_ONCE
instances are asked at a time, each at its own moment of the second. An engine that gives no answer, or one with nothing
in it that is known, has no load: routing then goes by the calls under way.
"""

import asyncio
import random

from controlplane.core import clock
from controlplane.routing.balancer import Balancer
from controlplane.routing.engine_load import parse
from controlplane.routing.table import Target
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamError, UpstreamRequest

PERIOD_SECONDS = 1.0
JITTER = 0.2
"""Of the period, up or down: several gateways must not keep step."""

USED_SECONDS = 30.0
LOOK_SECONDS = 0.2
ANSWER_SECONDS = 1.0
AT_ONCE = 16
PAGE_BYTES = 4 * 1024 * 1024

_ASK = UpstreamRequest(b"GET", b"/metrics", [])


class Scraper:
    """Keeps the balancer's loads fresh."""

    def __init__(self, balancer: Balancer, upstream: UpstreamClient, draw: random.Random | None = None) -> None:
        self._balancer = balancer
        self._upstream = upstream
        self._draw = draw or random.Random()
        self._due_at: dict[str, float] = {}
        self._at_work: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                self._ask_who_is_due()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in self._at_work.values():
                task.cancel()
            await asyncio.gather(*self._at_work.values(), return_exceptions=True)
            self._at_work.clear()

    def _ask_who_is_due(self) -> None:
        """Begin to ask those whose moment has come; whoever is still being asked is not asked again."""
        now = clock.monotonic()
        targets = {target.instance_id: target for target in self._balancer.cache_aware_targets(now, USED_SECONDS)}
        self._due_at = {name: self._due_at.get(name, now) for name in targets}
        due = [name for name, at in self._due_at.items() if at <= now and name not in self._at_work]
        for name in sorted(due, key=self._due_at.__getitem__)[: AT_ONCE - len(self._at_work)]:
            self._due_at[name] = now + PERIOD_SECONDS * self._draw.uniform(1 - JITTER, 1 + JITTER)
            task = self._at_work[name] = asyncio.create_task(self._scrape(targets[name]))
            task.add_done_callback(lambda _, name=name: self._at_work.pop(name, None))  # type: ignore[misc]

    async def _scrape(self, target: Target) -> None:
        page = await self._page(target)
        at = clock.monotonic()
        self._balancer.scraped(target.instance_id, None if page is None else parse(page.decode("utf-8", "replace"), at))

    async def _page(self, target: Target) -> bytes | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._upstream.send(target.address, _ASK, Timeouts(ANSWER_SECONDS, ANSWER_SECONDS))
                try:
                    page = await answer.read(PAGE_BYTES)
                finally:
                    answer.close()
        except (UpstreamError, TimeoutError):
            return None
        return page if answer.status == 200 else None
