"""The OpenAI-style door: `/endpoints/NAME/openai/v1`, for clients that know nothing but a base URL and a token.

    POST .../chat/completions, .../completions    carried to the container's /v1/..., as any other call
    GET  .../models                               the container's own list (an extension)

Requests and answers pass as they are, server-sent events byte for byte; the body is never read here, and whether an answer
is a stream is for the container to say. Routing, limits, counting and the container's headers are those of InvokeEndpoint,
whose X-Amzn-SageMaker-* headers are understood here too. What fails before the first byte is told in OpenAI's envelope,
with the container's own status where it gave one; a stream that breaks later is cut off, so that no half of it looks whole.
Source: contract, data plane 2.1 to 2.3.
"""

import logging
import re
from dataclasses import dataclass
from typing import Any

from controlplane.auth import bearer
from controlplane.auth.sigv4 import ALGORITHM, Key
from controlplane.core import clock
from controlplane.core.errors import (
    ApiError,
    IncompleteSignature,
    MissingAuthenticationToken,
    RequestTooLarge,
    ValidationError,
)
from controlplane.gateway import openai_errors
from controlplane.gateway.admission import admit
from controlplane.gateway.carry import Answer, Carrier, Choice, Errand, container_request
from controlplane.gateway.counting import Call
from controlplane.gateway.http import LOGGED_STATUSES, ClientGone, Request
from controlplane.gateway.invoke import ERROR_BODY_BYTES, HELD_BYTES, after, common_headers, first_part
from controlplane.gateway.patience import Patience
from controlplane.gateway.settings import Settings
from controlplane.gateway.streaming import stream_deadline, until
from controlplane.routing.upstream import UpstreamError
from controlplane.wire.doors import SERVICE, runtime_params
from controlplane.wire.errors import hide

PATH = re.compile(r"/endpoints/(?P<name>[^/]+)(?:/inference-components/(?P<component>[^/]+))?/openai(?P<rest>/.*)?")

_ROUTES = {"v1/chat/completions": "POST", "v1/completions": "POST", "v1/models": "GET"}
"""What is served, and by which method; the container has it under the same path."""

_TOKEN_WANTED = "A bearer token is needed here: Authorization: Bearer sagemaker-api-key-..."
log = logging.getLogger(__name__)

_EVENTS = b"text/event-stream"
_PASSED_BACK = (b"content-type", b"content-encoding", b"cache-control")


@dataclass
class OpenAI:
    """Answers the OpenAI-style paths."""

    settings: Settings
    carrier: Carrier

    async def answer(self, request: Request, match: re.Match[str]) -> None:
        """Answer one request whose path is PATH's; an answer cut off in its midst raises what cut it off."""
        try:
            await self._carry(request, match)
        except ApiError as error:
            await self._refuse(request, error)
        except (ClientGone, UpstreamError, TimeoutError):
            raise
        except Exception as fault:  # noqa: BLE001 - the door's last: logged by `hide`, answered with an id
            await self._refuse(request, hide(fault, request.request_id))

    async def _refuse(self, request: Request, error: ApiError) -> None:
        if request.has_started:
            raise error
        if error.status in LOGGED_STATUSES:
            log.warning("request %s %r: %d %s", request.request_id, request.raw_path, error.status, error.code)
        await request.respond(openai_errors.answer(error, request.request_id))

    async def _carry(self, request: Request, match: re.Match[str]) -> None:
        call = Call(clock.monotonic())
        key, body = await self._admit(request)
        path = _path(request, match)
        params: dict[str, Any] = runtime_params("InvokeEndpoint", match["name"], dict(request.headers), body)

        async def deliver(choice: Choice, answer: Answer, patience: Patience) -> None:
            await self._answer(request, choice, answer, patience)

        ask = container_request(params, f"/{path}".encode(), request.method.encode())
        errand = Errand(key, params, ask, self.settings.invocation_timeout_seconds, deliver)
        await self.carrier.carry(request, errand, call)

    async def _admit(self, request: Request) -> tuple[Key, bytes]:
        """Whose token it is, and the body; the body of a stranger is not read."""
        limit, directory = self.settings.payload_limit_bytes, self.carrier.directory
        too_large = RequestTooLarge(f"The body may hold {limit} bytes.")
        kind, _, token = (request.header("authorization") or "").partition(" ")
        if kind == ALGORITHM and self.settings.openai_takes_signatures:
            return await admit(request, limit, too_large, directory, self.settings.region)
        if not kind:
            raise MissingAuthenticationToken(_TOKEN_WANTED)
        if kind.lower() != "bearer":
            raise IncompleteSignature(_TOKEN_WANTED)
        await directory.knows_key(bearer.key_id_of(token.strip()))
        region = self.settings.region
        key = bearer.verify(token.strip(), directory.keys.find, region=region, service=SERVICE, now=clock.now())
        body, _ = await request.body(limit, too_large)
        return key, body

    async def _answer(self, request: Request, choice: Choice, answer: Answer, patience: Patience) -> None:
        is_success = answer.is_success
        is_stream = is_success and (answer.header(b"content-type") or b"").lower().startswith(_EVENTS)
        deadline = stream_deadline(choice, self.settings)
        pieces = until(deadline, answer.pieces) if is_stream else patience.over(answer.pieces)
        if not is_success:
            raise await self._failure(choice, answer, patience)
        try:
            held, is_whole = await first_part(pieces, 0 if is_stream else HELD_BYTES)
        except (UpstreamError, TimeoutError) as error:
            raise self.carrier.broken(choice, error) from error
        choice.call.answered(is_stream=is_stream)
        headers = _answer_headers(request, choice, answer, is_stream=is_stream)
        if is_whole:
            await request.respond_bytes(answer.status, headers, held)
        else:
            await request.stream(answer.status, headers, after(held, pieces))

    async def _failure(self, choice: Choice, answer: Answer, patience: Patience) -> ApiError:
        """The error for a container that said no, with what it said as far as it could be read."""
        try:
            held, _ = await first_part(patience.over(answer.pieces), ERROR_BODY_BYTES)
        except (UpstreamError, TimeoutError):
            held = b"(its answer could not be read whole)"
        choice.call.answered()
        error = self.carrier.model_error(choice, answer.status, held.decode("utf-8", "replace"))
        retry = answer.header(b"retry-after")
        return error if retry is None else openai_errors.with_retry(error, retry.decode("latin-1"))


def _path(request: Request, match: re.Match[str]) -> str:
    """The container's path; raises ApiError for what is not served. Slashes too many are a base URL's, and forgiven."""
    path = "/".join(part for part in (match["rest"] or "").split("/") if part)
    method = _ROUTES.get(path)
    if method is None:
        raise openai_errors.not_served(404, f"There is nothing at {request.raw_path!r}.")
    if method != request.method:
        raise openai_errors.not_served(405, f"{request.method} is not allowed here; use {method}.")
    if match["component"] is not None:
        name = match["name"]
        raise ValidationError(f"Endpoint {name} has no inference components; call it as /endpoints/{name}/openai/{path}.")
    return path


def _answer_headers(request: Request, choice: Choice, answer: Answer, *, is_stream: bool) -> list[tuple[bytes, bytes]]:
    headers = [(name, value) for name in _PASSED_BACK if (value := answer.header(name)) is not None]
    if is_stream and answer.header(b"cache-control") is None:
        headers.append((b"cache-control", b"no-cache"))
    return [*headers, (b"x-request-id", request.request_id.encode()), *common_headers(request, choice, answer)]
