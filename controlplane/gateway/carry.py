"""Carrying a call: an instance is chosen, asked, and what it answers is handed to whoever has to deliver it.

    variant, instance -> call -> head of the answer -> deliver (whole, framed or as it is) -> counted until its last byte

A connect failure, before anything was sent, may try one other instance. Anything after that is the model's error.

A call that needs nothing but what is in memory may go without a task until its answer is there (`express_calls`): `at_once`
chooses as `carry` does, and `carry_on` takes over what turns out to need more.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from controlplane.core import clock
from controlplane.core.errors import ApiError, ModelError, ServiceUnavailable
from controlplane.gateway.admission import serving_route
from controlplane.gateway.balancing import call_at, ending
from controlplane.gateway.capture import Capturer
from controlplane.gateway.counting import Call, Counts
from controlplane.gateway.directory import Directory
from controlplane.gateway.errand import Answer, Choice, Deliver, Errand, asked, note_failure
from controlplane.gateway.http import Request
from controlplane.gateway.model_errors import CUT_OFF, NO_STATUS, TIMED_OUT, model_error, unreached
from controlplane.gateway.patience import Patience
from controlplane.gateway.sessions import CLOSED_SESSION_HEADER, NEW_SESSION, NEW_SESSION_HEADER, Sessions, place_of
from controlplane.routing.balancer import Balancer
from controlplane.routing.policies import choose_variant
from controlplane.routing.table import Target
from controlplane.routing.upstream import ConnectFailed, TimedOut, Timeouts, UpstreamClient, UpstreamError, UpstreamResponse


@dataclass(frozen=True)
class _Wanted:
    """What the choice is bound to: a variant's name, an instance's id (that of a session), and whom to avoid."""

    variant: str | None
    instance_id: str = ""
    avoid: tuple[Target, ...] = ()


@dataclass
class Carrier:
    """Everything that carrying needs."""

    directory: Directory
    upstream: UpstreamClient
    balancer: Balancer
    counts: Counts
    sessions: Sessions
    capturer: Capturer
    region: str
    draw: random.Random = field(default_factory=random.Random)
    on_dispatch: list[Callable[[Errand, Choice], None]] = field(default_factory=list)
    """Told of each call as it goes out, once."""

    async def carry(
        self, request: Request, errand: Errand, deliver: Deliver, call: Call, chosen: Choice | None = None
    ) -> None:
        """Carry one call to its end, or until the client hangs up; raises ApiError before the answer's first byte.

        `chosen` is where it goes, if that is known and counted there.
        """
        await self._counted(request, self._try_twice(errand, deliver, call, chosen), call)

    def at_once(self, errand: Errand, call: Call) -> Choice | None:
        """Where `carry` would take a call that needs nothing but what is in memory, and no record, copy or session; None
        for any other. Raises ApiError where there is no such place. The call is not counted there yet."""
        caller, params = errand.caller, errand.params
        route = self.directory.table.find(caller.account_id, params["EndpointName"])
        if route is None or not route.is_serving or route.async_inference is not None or route.shadows:
            return None
        variant = choose_variant(route, params.get("TargetVariant"), self.draw)
        if "SessionId" in params or variant.capture is not None:
            return None
        call.route, call.variant = route, variant
        return Choice(route, variant, self.balancer.choose(route.endpoint_id, variant, asked(errand), call.started), call)

    async def carry_on(
        self, request: Request, errand: Errand, deliver: Deliver, choice: Choice, answer: UpstreamResponse, left: float
    ) -> None:
        """Carry a call on that is counted at its instance, and whose answer has begun; the container has `left` seconds."""
        with ending(self.balancer, choice.target), closing(answer):
            delivered = self._pass_on(errand, deliver, choice, answer, Patience(left))
            await self._counted(request, delivered, choice.call)

    async def _counted(self, request: Request, work: Coroutine[Any, Any, None], call: Call) -> None:
        """Do the work of a call unless the client hangs up, and count how the call ended."""
        try:
            await request.unless_gone(work)
        except asyncio.CancelledError as stopped:  # the gateway ends; what was asked must not be asked again
            if call.route is None or call.asked is None:
                raise
            cut_off = model_error(call.route, self.region, NO_STATUS, CUT_OFF)
            note_failure(call, cut_off)
            raise cut_off from stopped
        except (ApiError, UpstreamError, TimeoutError) as error:
            note_failure(call, error)
            raise
        finally:
            self.counts.add(call)

    async def _try_twice(self, errand: Errand, deliver: Deliver, call: Call, chosen: Choice | None) -> None:
        """Call an instance; if no connection to it can be made, one other of the variant. A session has but the one."""
        wanted = _Wanted(errand.params.get("TargetVariant"), await self._instance_of_session(errand))
        choice = chosen or await self._choose(errand, wanted, call)
        for told in self.on_dispatch:
            told(errand, choice)
        try:
            with ending(self.balancer, choice.target) if chosen else call_at(self.balancer, choice.target):
                await self._ask(errand, deliver, choice)
        except ConnectFailed as failure:
            if wanted.instance_id:
                raise unreached(choice.route, self.region) from failure
            try:
                other = await self._choose(errand, _Wanted(choice.variant.name, "", (choice.target,)), call)
                await self.call(errand, deliver, other)
            except (ConnectFailed, ServiceUnavailable) as error:
                raise unreached(choice.route, self.region) from error

    async def _instance_of_session(self, errand: Errand) -> str:
        """The id of the instance that has the session which the call names; empty where it names none."""
        session_id = errand.params.get("SessionId", NEW_SESSION)
        if session_id == NEW_SESSION:
            return ""
        route = await serving_route(self.directory, errand.caller, errand.params["EndpointName"], is_async=False)
        return await self.sessions.find(route, session_id)

    async def _choose(self, errand: Errand, wanted: "_Wanted", call: Call) -> Choice:
        """Where the call goes by the table of this moment.

        Nothing is awaited from the look at the table until the call is counted: once this gateway has reported an
        instance as drained, no call goes there any more.
        """
        route = await serving_route(self.directory, errand.caller, errand.params["EndpointName"], is_async=False)
        if wanted.instance_id:
            call.route = route
            call.variant, target = place_of(route, wanted.instance_id, errand.params["SessionId"])
            return Choice(route, call.variant, target, call)
        variant = choose_variant(route, wanted.variant, self.draw)
        call.route, call.variant = route, variant
        now = clock.monotonic()
        target = self.balancer.choose(route.endpoint_id, variant, asked(errand), now, wanted.avoid)
        return Choice(route, variant, target, call)

    async def call(self, errand: Errand, deliver: Deliver, choice: Choice) -> None:
        """Ask the chosen instance and have its answer delivered; raises ModelError, ConnectFailed or as `deliver` does."""
        with call_at(self.balancer, choice.target):
            await self._ask(errand, deliver, choice)

    async def _ask(self, errand: Errand, deliver: Deliver, choice: Choice) -> None:
        """As `call`, with the call counted at its instance."""
        patience = Patience(errand.seconds)
        try:
            choice.call.ask()
            sending = self.upstream.send(choice.target.address, errand.ask, Timeouts(response=errand.seconds))
            answer = await patience.wait(sending)
        except ConnectFailed:
            raise
        except (TimedOut, TimeoutError, UpstreamError) as error:
            raise self.broken(choice, error) from error
        with closing(answer):
            await self._pass_on(errand, deliver, choice, answer, patience)

    async def _pass_on(
        self, errand: Errand, deliver: Deliver, choice: Choice, response: UpstreamResponse, patience: Patience
    ) -> None:
        """Have the answer delivered, and recorded meanwhile if it is one of those to be captured."""
        answer = Answer(response.status, response.headers, response.chunks())
        await self._follow_session(choice, answer)
        recording = (
            self.capturer.begin(choice.route, choice.variant, errand.params) if errand.may_be_captured(answer) else None
        )
        if recording is None:
            await deliver(choice, answer, patience)
            return
        content_type = (answer.header(b"content-type") or b"").decode("latin-1")
        with closing(recording):
            taped = Answer(answer.status, answer.headers, recording.tap(answer.pieces, content_type))
            await deliver(choice, taped, patience)

    async def _follow_session(self, choice: Choice, answer: Answer) -> None:
        if answer.tells_of_sessions:
            opened, closed = answer.header(NEW_SESSION_HEADER), answer.header(CLOSED_SESSION_HEADER)
            texts = ((each or b"").decode("latin-1") for each in (opened, closed))
            await self.sessions.follow(choice.route, choice.target, *texts)

    def broken(self, choice: Choice, error: Exception) -> ModelError:
        """The error for a container that gave no whole answer."""
        choice.call.answered()
        if isinstance(error, TimedOut | TimeoutError):
            return self.model_error(choice, NO_STATUS, TIMED_OUT)
        return self.model_error(choice, NO_STATUS, f"The container gave no proper answer: {error}.")

    def model_error(self, choice: Choice, status: int, text: str) -> ModelError:
        """The error for a container that answered `status` (0 = not at all) with `text`."""
        return model_error(choice.route, self.region, status, text)
