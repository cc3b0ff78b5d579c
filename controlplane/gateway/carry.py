"""Carrying a call: an instance is chosen, asked, and what it answers is handed to whoever has to deliver it.

    variant, instance -> call -> head of the answer -> deliver (whole, framed or as it is) -> counted until its last byte

A connect failure, before anything was sent, may try one other instance. Anything after that is the model's error.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, cast

from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.core.errors import ApiError, ModelError, ServiceUnavailable
from controlplane.gateway.admission import serving_route
from controlplane.gateway.balancing import call_at
from controlplane.gateway.capture import Capturer
from controlplane.gateway.counting import Call, Counts
from controlplane.gateway.directory import Directory
from controlplane.gateway.http import Request
from controlplane.gateway.model_errors import NO_STATUS, TIMED_OUT, UNREACHED, model_error
from controlplane.gateway.patience import Patience
from controlplane.gateway.sessions import CLOSED_SESSION_HEADER, NEW_SESSION, NEW_SESSION_HEADER, Sessions, place_of
from controlplane.routing.balancer import Balancer
from controlplane.routing.policies import choose_variant
from controlplane.routing.prefix import Ask
from controlplane.routing.table import Route, Target, VariantRoute
from controlplane.routing.upstream import (
    ConnectFailed,
    Headers,
    TimedOut,
    Timeouts,
    UpstreamClient,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
)

_TO_CONTAINER = {
    "ContentType": b"content-type",
    "Accept": b"accept",
    "CustomAttributes": b"x-amzn-sagemaker-custom-attributes",
    "InferenceId": b"x-amzn-sagemaker-inference-id",
    "SessionId": b"x-amzn-sagemaker-session-id",
}
"""Members that the container sees; every other request header stays behind."""


@dataclass(frozen=True)
class Choice:
    """Where a call goes, and what is counted of it."""

    route: Route
    variant: VariantRoute
    target: Target
    call: Call


@dataclass(frozen=True)
class Answer:
    """What the container answers: the head is there, the body comes in `pieces`, to be read once."""

    status: int
    headers: Headers
    pieces: AsyncIterator[bytes]

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header (lower-case name)."""
        return next((value for key, value in self.headers if key == name), None)


Deliver = Callable[[Choice, Answer, Patience], Awaitable[None]]
"""Takes the answer, whose head is there, to the client. The patience is what is left of the time for the container."""


@dataclass(frozen=True)
class Errand:
    """One call to be carried: who asks, the checked members, what the container is asked, and who delivers its answer.

    The container has `seconds` until the head of its answer is there.
    """

    key: Key
    params: dict[str, Any]
    ask: UpstreamRequest
    seconds: float
    deliver: Deliver

    def may_be_captured(self, answer: Answer) -> bool:
        """Whether there is anything to keep of the call: it is one of the model, and the model did not refuse it."""
        return answer.is_success and self.ask.method == b"POST"


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

    async def carry(self, request: Request, errand: Errand, call: Call) -> None:
        """Carry one call to its end, or until the client hangs up; raises ApiError before the answer's first byte."""
        try:
            await request.unless_gone(self._try_twice(errand, call))
        except (ApiError, UpstreamError, TimeoutError) as error:
            note_failure(call, error)
            raise
        finally:
            self.counts.add(call)

    async def _try_twice(self, errand: Errand, call: Call) -> None:
        """Call an instance; if no connection to it can be made, one other of the variant. A session has but the one."""
        wanted = _Wanted(errand.params.get("TargetVariant"), await self._instance_of_session(errand))
        choice = await self._choose(errand, wanted, call)
        for told in self.on_dispatch:
            told(errand, choice)
        try:
            await self.call(errand, choice)
        except ConnectFailed as failure:
            if wanted.instance_id:
                raise self.model_error(choice, NO_STATUS, UNREACHED) from failure
            try:
                other = await self._choose(errand, _Wanted(choice.variant.name, "", (choice.target,)), call)
                await self.call(errand, other)
            except (ConnectFailed, ServiceUnavailable) as error:
                raise self.model_error(choice, NO_STATUS, UNREACHED) from error

    async def _instance_of_session(self, errand: Errand) -> str:
        """The id of the instance that has the session which the call names; empty where it names none."""
        session_id = errand.params.get("SessionId", NEW_SESSION)
        if session_id == NEW_SESSION:
            return ""
        route = await serving_route(self.directory, errand.key, errand.params["EndpointName"], is_async=False)
        return await self.sessions.find(route, session_id)

    async def _choose(self, errand: Errand, wanted: "_Wanted", call: Call) -> Choice:
        """Where the call goes by the table of this moment.

        Nothing is awaited from the look at the table until the call is counted: once this gateway has reported an
        instance as drained, no call goes there any more.
        """
        route = await serving_route(self.directory, errand.key, errand.params["EndpointName"], is_async=False)
        if wanted.instance_id:
            call.route = route
            call.variant, target = place_of(route, wanted.instance_id, errand.params["SessionId"])
            return Choice(route, call.variant, target, call)
        variant = choose_variant(route, wanted.variant, self.draw)
        call.route, call.variant = route, variant
        now = clock.monotonic()
        target = self.balancer.choose(route.endpoint_id, variant, asked(errand), now, wanted.avoid)
        return Choice(route, variant, target, call)

    async def call(self, errand: Errand, choice: Choice) -> None:
        """Ask the chosen instance and have its answer delivered; raises ModelError, ConnectFailed or as `deliver` does."""
        patience = Patience(errand.seconds)
        with call_at(self.balancer, choice.target):
            try:
                choice.call.ask()
                sending = self.upstream.send(choice.target.address, errand.ask, Timeouts(response=errand.seconds))
                answer = await patience.wait(sending)
            except ConnectFailed:
                raise
            except (TimedOut, TimeoutError, UpstreamError) as error:
                raise self.broken(choice, error) from error
            with closing(answer):
                await self._pass_on(errand, choice, answer, patience)

    async def _pass_on(self, errand: Errand, choice: Choice, response: UpstreamResponse, patience: Patience) -> None:
        """Have the answer delivered, and recorded meanwhile if it is one of those to be captured."""
        answer = Answer(response.status, response.headers, response.chunks())
        await self._follow_session(choice, answer)
        recording = (
            self.capturer.begin(choice.route, choice.variant, errand.params) if errand.may_be_captured(answer) else None
        )
        if recording is None:
            await errand.deliver(choice, answer, patience)
            return
        content_type = (answer.header(b"content-type") or b"").decode("latin-1")
        with closing(recording):
            await errand.deliver(choice, replace(answer, pieces=recording.tap(answer.pieces, content_type)), patience)

    async def _follow_session(self, choice: Choice, answer: Answer) -> None:
        opened, closed = answer.header(NEW_SESSION_HEADER), answer.header(CLOSED_SESSION_HEADER)
        if (opened or closed) and answer.is_success:
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


def asked(errand: Errand) -> Ask:
    """What routing may look at."""
    body, identity = errand.ask.body, errand.params.get("PrefixAwareId", "")
    return Ask(body if isinstance(body, bytes) else b"", identity, is_chat=errand.ask.target != b"/invocations")


def note_failure(call: Call, error: Exception) -> None:
    """Count what a call has failed by."""
    status = error.extra["OriginalStatusCode"] if isinstance(error, ModelError) else 0
    call.fail(cast(int, status), is_model_error=not isinstance(error, ServiceUnavailable))


def container_request(params: dict[str, Any], target: bytes = b"/invocations", method: bytes = b"POST") -> UpstreamRequest:
    """What the container is asked: the body as it came, and the headers that it may see."""
    headers = [(name, params[member].encode("latin-1")) for member, name in _TO_CONTAINER.items() if member in params]
    return UpstreamRequest(method, target, headers, params["Body"])
