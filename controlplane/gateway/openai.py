"""The OpenAI-style door: `/endpoints/NAME/openai/v1`, for clients that know nothing but a base URL and a token.

    POST .../chat/completions, .../completions    carried to the container's /v1/..., as any other call
    GET  .../models                               the container's own list (an extension)

Requests and answers pass as they are, server-sent events byte for byte; the body is never read here, and whether an answer
is a stream is for the container to say. Routing, limits, counting and the container's headers are those of InvokeEndpoint,
whose X-Amzn-SageMaker-* headers are understood here too. What fails before the first byte is told in OpenAI's envelope,
with the container's own status where it gave one; a stream that breaks later is cut off, so that no half of it looks whole.
Source: contract, data plane 2.1 to 2.3.
"""

import re
from collections.abc import Awaitable
from dataclasses import dataclass

from controlplane.auth import bearer
from controlplane.auth.sigv4 import ALGORITHM
from controlplane.core import clock
from controlplane.core.errors import (
    ApiError,
    IncompleteSignature,
    MethodNotAllowed,
    MissingAuthenticationToken,
    RequestTooLarge,
    ServiceUnavailable,
    ValidationError,
)
from controlplane.gateway import openai_errors
from controlplane.gateway.admission import Caller, admit, admit_at_once, told_once
from controlplane.gateway.carry import Carrier
from controlplane.gateway.counting import Call
from controlplane.gateway.door import NOTHING
from controlplane.gateway.errand import Answer, Choice, Deliver, Errand, Head, container_request
from controlplane.gateway.http import ClientGone, Request, WholeRequest, log_refusal
from controlplane.gateway.invoke import ERROR_BODY_BYTES, HELD_BYTES, after, common_headers, first_part, members
from controlplane.gateway.model_errors import NO_STATUS, Unreached
from controlplane.gateway.patience import Patience
from controlplane.gateway.settings import Settings
from controlplane.gateway.streaming import stream_deadline, until
from controlplane.gateway.tokens import PREFIX as API_TOKEN_PREFIX
from controlplane.gateway.tokens import digest_in
from controlplane.routing.upstream import Headers, UpstreamError
from controlplane.wire.doors import SERVICE
from controlplane.wire.errors import WireResponse, hide

PATH = re.compile(r"/endpoints/(?P<name>[^/]+)(?:/inference-components/(?P<component>[^/]+))?/openai(?P<rest>/.*)?")

_ROUTES = {"v1/chat/completions": "POST", "v1/completions": "POST", "v1/models": "GET"}
"""What is served, and by which method; the container has it under the same path."""

_TOKEN_WANTED = "A bearer token is needed here: Authorization: Bearer sagemaker-api-key-..., or an API token, hr_..."
_UNREACHED = "No instance can be reached now. Try again in a moment."
_UNREADABLE = b"(its answer could not be read whole)"
_EVENTS = b"text/event-stream"
_PASSED_BACK = (b"content-type", b"content-encoding", b"cache-control")


@dataclass
class OpenAI:
    """Answers the OpenAI-style paths; a `Door` to the express way."""

    settings: Settings
    carrier: Carrier

    async def answer(self, request: Request, match: re.Match[str]) -> None:
        """Answer one request whose path is PATH's; an answer cut off in its midst raises what cut it off."""
        await self.guarded(request, self._carry(request, match))

    async def guarded(self, request: Request, work: Awaitable[None]) -> None:
        try:
            await work
        except ApiError as error:
            await self._refuse(request, error)
        except (ClientGone, UpstreamError, TimeoutError):
            raise
        except Exception as fault:  # noqa: BLE001 - the door's last: logged by `hide`, answered with an id
            await self._refuse(request, hide(fault, request.request_id))

    async def _refuse(self, request: Request, error: ApiError) -> None:
        if request.has_started:
            raise error
        if isinstance(error, Unreached):
            error = ServiceUnavailable(_UNREACHED)
        log_refusal(error, request.request_id, request.raw_path)
        await request.respond(self.refusal(error, request.request_id))

    def refusal(self, error: ApiError, request_id: str) -> WireResponse:
        return openai_errors.answer(error, request_id)

    async def _carry(self, request: Request, match: re.Match[str]) -> None:
        call = Call(clock.monotonic())
        key, body = await self._admit(request)
        path = _path(request, match)
        params = members(match["name"], told_once(request.headers), body)
        ask = container_request(params, f"/{path}".encode(), request.method.encode())
        errand = Errand(key, params, ask, self.settings.invocation_timeout_seconds)
        await self.carrier.carry(request, errand, self.deliver_to(request), call)

    def deliver_to(self, request: Request) -> Deliver:
        async def deliver(choice: Choice, answer: Answer, patience: Patience) -> None:
            await self._answer(request, choice, answer, patience)

        return deliver

    def at_once(self, asked: WholeRequest) -> Errand | None:
        """What `answer` would have carried (see `Door`)."""
        if len(asked.body) > self.settings.payload_limit_bytes:
            return None
        kind, _, token = (asked.header("authorization") or "").partition(" ")
        if kind.lower() != "bearer":
            return None
        caller = self._admit_at_once(asked, token.strip())
        params = members(asked.endpoint_name, told_once(asked.headers), asked.body)
        ask = container_request(params, asked.operation.removeprefix("openai").encode())
        return Errand(caller, params, ask, self.settings.invocation_timeout_seconds)

    def _admit_at_once(self, asked: WholeRequest, token: str) -> Caller:
        directory, region = self.carrier.directory, self.settings.region
        if token.startswith(API_TOKEN_PREFIX):
            return admit_at_once(asked, directory, region)
        return bearer.verify(token, directory.keys.find, region=region, service=SERVICE, now=clock.now())

    async def _admit(self, request: Request) -> tuple[Caller, bytes]:
        """Whose token it is, and the body; the body of a stranger is not read."""
        limit, directory = self.settings.payload_limit_bytes, self.carrier.directory
        too_large = RequestTooLarge(f"The body may hold {limit} bytes.")
        authorization = request.header("authorization") or ""
        kind, _, token = authorization.partition(" ")
        is_signed = kind == ALGORITHM and self.settings.openai_takes_signatures
        if is_signed or digest_in(authorization) is not None:
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
        is_success, is_stream = answer.is_success, _is_stream(answer)
        deadline = stream_deadline(choice, self.settings)
        pieces = until(deadline, answer.pieces) if is_stream else patience.over(answer.pieces)
        if not is_success:
            raise await self._failure(choice, answer, patience)
        try:
            held, is_whole = await first_part(pieces, 0 if is_stream else HELD_BYTES)
        except (UpstreamError, TimeoutError) as error:
            raise self.carrier.broken(choice, error) from error
        choice.call.answered(is_stream=is_stream)
        status, headers = self.good(request.request_id, choice, answer)
        if is_whole:
            await request.respond_bytes(status, headers, held)
        else:
            await request.stream(status, headers, after(held, pieces))

    async def _failure(self, choice: Choice, answer: Answer, patience: Patience) -> ApiError:
        """The error for a container that said no, with what it said as far as it could be read."""
        try:
            held, _ = await first_part(patience.over(answer.pieces), ERROR_BODY_BYTES)
        except (UpstreamError, TimeoutError):
            held = _UNREADABLE
        choice.call.answered()
        return self.failure(choice, answer, held)

    def failure(self, choice: Choice, head: Head, said: bytes) -> ApiError:
        error = self.carrier.model_error(choice, head.status, said.decode("utf-8", "replace"))
        retry = head.header(b"retry-after")
        return error if retry is None else openai_errors.with_retry(error, retry.decode("latin-1"))

    def broken(self, choice: Choice, head: Head, error: Exception) -> ApiError:
        if head.status == NO_STATUS or head.is_success:
            return self.carrier.broken(choice, error)
        choice.call.answered()
        return self.failure(choice, head, _UNREADABLE)

    def held_bytes(self, head: Head) -> int:
        return NOTHING if _is_stream(head) else HELD_BYTES

    def good(self, request_id: str, choice: Choice, head: Head) -> tuple[int, Headers]:
        headers = [(name, value) for name in _PASSED_BACK if (value := head.header(name)) is not None]
        if _is_stream(head) and head.header(b"cache-control") is None:
            headers.append((b"cache-control", b"no-cache"))
        return head.status, [*headers, (b"x-request-id", request_id.encode()), *common_headers(request_id, choice, head)]


def _path(request: Request, match: re.Match[str]) -> str:
    """The container's path; raises ApiError for what is not served. Slashes too many are a base URL's, and forgiven."""
    path = "/".join(part for part in (match["rest"] or "").split("/") if part)
    method = _ROUTES.get(path)
    if method is None:
        raise openai_errors.not_found(f"There is nothing at {request.raw_path!r}.")
    if method != request.method:
        raise MethodNotAllowed(request.method, method)
    if match["component"] is not None:
        name = match["name"]
        raise ValidationError(f"Endpoint {name} has no inference components; call it as /endpoints/{name}/openai/{path}.")
    return path


def _is_stream(head: Head) -> bool:
    return head.is_success and (head.header(b"content-type") or b"").lower().startswith(_EVENTS)
