"""The ASGI application: which path goes where, and how every error ends in the protocol's form."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

from controlplane.auth.sigv4 import scope_of
from controlplane.core import database
from controlplane.core.errors import ApiError, MethodNotAllowed, UnknownOperationException
from controlplane.core.keep_going import BackgroundWork, keep_going
from controlplane.gateway import counting, heartbeat, openai
from controlplane.gateway.asynchronous import AsyncInvoker
from controlplane.gateway.capture import Capturer
from controlplane.gateway.capture_store import CaptureStore
from controlplane.gateway.carry import Carrier
from controlplane.gateway.directory import Directory
from controlplane.gateway.ending import end
from controlplane.gateway.error_forms import form_of
from controlplane.gateway.http import ClientGone, Message, Receive, Request, Send, log_refusal
from controlplane.gateway.invoke import Invoker
from controlplane.gateway.probes import Probes
from controlplane.gateway.relay import Relay
from controlplane.gateway.scraper import Scraper
from controlplane.gateway.sessions import Sessions
from controlplane.gateway.settings import Settings
from controlplane.gateway.shadow import Shadows
from controlplane.gateway.streaming import Streamer
from controlplane.invocations.accept import Acceptor
from controlplane.routing.balancer import Balancer
from controlplane.routing.policies import InFlight
from controlplane.routing.upstream import UpstreamClient, UpstreamError
from controlplane.wire.errors import WireResponse, hide

POOL_SIZE = 6

_RUNTIME_PATH = re.compile(r"/endpoints/(?P<name>[^/]+)/(?P<verb>.+)")

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[None]]


class Taskless(Protocol):
    """A call that is carried without a task."""

    def cut_off(self) -> None:
        """End it, and tell its caller."""


class Gateway:
    """One gateway process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._in_flight = InFlight()
        self._balancer = Balancer(
            self._in_flight, type_weights=settings.type_weights, slow_start_seconds=settings.slow_start_seconds
        )
        self._upstream = UpstreamClient()
        self._pool = database.pool(settings.database_url, min_size=2, max_size=POOL_SIZE)
        self._directory = Directory(settings.database_url, settings.secret_key, self._pool)
        self._acceptor = Acceptor(settings.database_url)
        self._counts = counting.Counts()
        self._sessions = Sessions(self._pool)
        self._capturer = Capturer(CaptureStore(settings.s3_endpoint_url, settings.region), settings.capture_seconds)
        self.carrier = Carrier(
            self._directory,
            self._upstream,
            self._balancer,
            self._counts,
            self._sessions,
            self._capturer,
            settings.region,
        )
        self._shadows = Shadows(self.carrier)
        self.carrier.on_dispatch.append(self._shadows.copy)
        self.openai = openai.OpenAI(settings, self.carrier)
        self.invoker = Invoker(settings, self.carrier)
        self.async_invoker = AsyncInvoker(settings, self._directory, self._acceptor)
        self._relay = Relay(self._upstream, settings.api_address, settings.store_address)
        self._probes = Probes(self._directory, self._pool, self._upstream, settings.api_address, settings.redis_url)
        self._tasks = AsyncExitStack()
        self.under_way: set[Taskless] = set()
        """The calls on the express way, which the server has no tasks of."""
        self._verbs = {
            "invocations": self.invoker.invoke,
            "invocations-response-stream": Streamer(settings, self.carrier).invoke,
            "async-invocations": self.async_invoker.invoke,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI's one entry."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            request = Request.of(scope, receive, send)
            await self.guarded(request, self._route(request))
        else:
            await send({"type": "websocket.close"})

    async def guarded(self, request: Request, work: Awaitable[None]) -> None:
        """Have a request answered; an error before the first byte is answered in the form of the path's protocol."""
        try:
            await work
        except ClientGone:
            return
        except ApiError as error:
            await self._refuse(request, error)
        except (UpstreamError, TimeoutError) as fault:
            self._cut_off(request, fault)
        except Exception as fault:  # noqa: BLE001 - the last door: logged by `hide`, answered with an id
            await self._refuse(request, hide(fault, request.request_id))

    async def _refuse(self, request: Request, error: ApiError) -> None:
        if request.has_started:
            self._cut_off(request, error)
            return
        log_refusal(error, request.request_id, request.raw_path)
        await request.respond(form_of(request.raw_path)(error, request.request_id))

    def _cut_off(self, request: Request, fault: Exception) -> None:
        """Leave the answer incomplete: the server closes the connection, and no half of an answer looks like a whole."""
        log.warning("request %s: its answer was cut off: %s", request.request_id, fault)

    async def _route(self, request: Request) -> None:
        scope = scope_of(request.headers, request.query)
        if self._settings.store_address and scope is not None and scope.service == "s3":
            await self._relay.to_store(request)
        elif request.raw_path in ("/healthz", "/readyz"):
            await request.respond(await self._probe(request))
        elif match := openai.PATH.fullmatch(request.raw_path):
            await self.openai.answer(request, match)
        elif match := _RUNTIME_PATH.fullmatch(request.raw_path):
            await self._runtime(request, match["name"], match["verb"])
        else:
            await self._relay.to_api(request)

    async def _probe(self, request: Request) -> WireResponse:
        if request.raw_path == "/healthz":
            return self._probes.healthz(request.request_id)
        return await self._probes.readyz(request.request_id)

    async def _runtime(self, request: Request, name: str, verb: str) -> None:
        handler = self._verbs.get(verb)
        if handler is None:
            error = UnknownOperationException(f"There is no operation at {request.raw_path!r}.")
            error.status = 404
            raise error
        if request.method != "POST":
            raise MethodNotAllowed(request.method, "POST")
        await handler(request, name)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start the background work with the server and end it with the server."""
        await receive()
        await self._pool.open(wait=False)
        self._start(self._directory.keep_fresh)
        self._acceptor.open()
        self._start(self._sessions.sweep)
        self._start(self._capturer.run)
        tell, name = self.async_invoker.time.tell, self._settings.gateway_id
        self._start(lambda: heartbeat.report(name, self._directory, self._in_flight, self._pool, tell))
        self._start(Scraper(self._balancer, self._upstream).run)
        self._start(lambda: counting.report(self._counts, self._pool))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for call in list(self.under_way):
            call.cut_off()
        await self._tasks.aclose()
        await self._acceptor.close()
        await self._shadows.close()
        await counting.write(self._counts, self._pool)
        await self._capturer.leave()
        await heartbeat.leave(self._settings.gateway_id, self._pool)
        self._upstream.close()
        await self._pool.close()
        await send({"type": "lifespan.shutdown.complete"})

    def _start(self, work: BackgroundWork) -> None:
        self._tasks.push_async_callback(end, asyncio.create_task(keep_going(work)))
