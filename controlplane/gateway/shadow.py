"""Shadow variants: copies of calls, sent beside them; what comes back is counted, captured and forgotten.

    a call is sent to its instance -> drawn for a copy? -> is there room? -> a task of its own: asked, read to the end
                                          no: nothing         no: dropped, said in the log once a minute

The caller's call waits for none of it. Copies under way hold MOST_COPIES places and MOST_BYTES of bodies, no more: a shadow
that is slow or dead costs that much and then nothing. A call within a session is not copied, since the shadow has none.
"""

import asyncio
import logging
import random
from dataclasses import dataclass, field

from controlplane.core import clock
from controlplane.core.errors import ApiError, ServiceUnavailable
from controlplane.gateway.admission import serving_route
from controlplane.gateway.carry import Carrier
from controlplane.gateway.counting import Call
from controlplane.gateway.errand import Answer, Choice, Errand, asked, note_failure
from controlplane.gateway.patience import Patience
from controlplane.routing.shadows import shadow_of
from controlplane.routing.table import Route, VariantRoute
from controlplane.routing.upstream import UpstreamError

MOST_COPIES = 256
MOST_BYTES = 32 * 1024 * 1024
COPY_BYTES = 4096
"""What a copy costs beside its body."""

SAY_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass
class Shadows:
    """The copies that this gateway has under way."""

    carrier: Carrier
    draw: random.Random = field(default_factory=random.Random)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _held_bytes: int = 0
    _dropped: int = 0
    _say_at: float = 0.0

    def copy(self, errand: Errand, choice: Choice) -> None:
        """Copy a call whose instance was just chosen, if a shadow is to have it and there is room; never raises."""
        if not choice.route.shadows or "SessionId" in errand.params or errand.ask.method != b"POST":
            return
        shadow = shadow_of(choice.route, choice.variant, self.draw)
        if shadow is None:
            return
        size = COPY_BYTES + len(errand.params["Body"])
        if len(self._tasks) >= MOST_COPIES or self._held_bytes + size > MOST_BYTES:
            self._drop()
            return
        self._held_bytes += size
        task = asyncio.get_running_loop().create_task(self._carry(errand, shadow))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, size))

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[None]", size: int) -> None:
        self._tasks.discard(task)
        self._held_bytes -= size
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a copy for a shadow variant failed in the gateway", exc_info=fault)

    def _drop(self) -> None:
        self._dropped += 1
        now = clock.monotonic()
        if now >= self._say_at:
            log.warning("shadow variants: %d copies were dropped, %d are under way", self._dropped, len(self._tasks))
            self._dropped, self._say_at = 0, now + SAY_SECONDS

    async def _carry(self, errand: Errand, shadow: VariantRoute) -> None:
        call = Call(clock.monotonic())
        try:
            await self._call(errand, shadow, call)
        except (ApiError, UpstreamError, TimeoutError) as error:
            note_failure(call, error)
        finally:
            self.carrier.counts.add(call)

    async def _call(self, errand: Errand, shadow: VariantRoute, call: Call) -> None:
        """Nothing is awaited from the look at the table until the copy is counted, as for any call."""
        carrier = self.carrier
        route = await serving_route(carrier.directory, errand.caller, errand.params["EndpointName"], is_async=False)
        call.route, call.variant = route, _present(route, shadow)
        target = carrier.balancer.choose(route.endpoint_id, call.variant, asked(errand), clock.monotonic())
        await carrier.call(errand, self._forget, Choice(route, call.variant, target, call))

    async def _forget(self, choice: Choice, answer: Answer, patience: Patience) -> None:
        try:
            async for _ in patience.over(answer.pieces):
                pass
        except (UpstreamError, TimeoutError) as error:
            raise self.carrier.broken(choice, error) from error
        choice.call.answered()
        if not answer.is_success:
            raise self.carrier.model_error(choice, answer.status, "")


def _present(route: Route, shadow: VariantRoute) -> VariantRoute:
    """The shadow as the table has it now; raises ServiceUnavailable when it is gone."""
    for each in route.shadows:
        if (each.name, each.config_name) == (shadow.name, shadow.config_name):
            return each
    raise ServiceUnavailable(f"Shadow variant {shadow.name} is gone.")
