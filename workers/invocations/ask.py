"""Asking a model: one call to an instance, its answer, and what that means.

A payload is sent as bytes, or from a file, piece by piece; an answer larger than a piece is read into a file, so that
neither has to fit into memory. The limit is on the whole call: a container that answers in drips, or never, costs its
caller's time and no more.

    small payload, a kept connection ----> one exchange (see `exchange`) ----> small answer: in memory
      | no                                                     | large: read on into the file
      v                                                        v
    the client's general way: connect, send, read into the file
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import IO

from controlplane.core import clock
from controlplane.invocations.messages import ANSWER_LIMIT_BYTES
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
from workers.invocations.exchange import exchange
from workers.invocations.leased import Leased
from workers.invocations.plan import (
    TEXT_LIMIT,
    Step,
    Store,
    after_answer,
    after_fault,
    after_no_connection,
    after_timeout,
)

PIECE_BYTES = 256 * 1024

CONTENT_TYPE_LIMIT = 1024
"""Of an answer's, as of a request's. S3 takes 2 KB of such headers together; one that is longer costs no answer."""

Spool = Callable[[], IO[bytes]]
"""Makes an empty file."""


@dataclass(frozen=True)
class Payload:
    """What to send: bytes, or a file of so many bytes."""

    body: bytes | IO[bytes]
    size: int

    def framed(self) -> tuple[Headers, bytes | AsyncIterator[bytes]]:
        """The headers that the body needs, and the body as the client takes it."""
        if isinstance(self.body, bytes):
            return [], self.body
        return [(b"content-length", b"%d" % self.size)], _pieces(self.body)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


@dataclass(frozen=True)
class Answered:
    """What came of asking a model: what to do next, and its answer's status (0 = none came, None = it was not reached).

    `body` is a good answer. `error_body` is the body of a failed answer as far as a message may carry it, None where it is
    larger or there is none.
    """

    step: Step
    status: int | None
    content_type: str = ""
    body: IO[bytes] | bytes = b""
    error_body: bytes | None = None


async def ask(upstream: UpstreamClient, address: str, leased: Leased, payload: Payload, spool: Spool) -> Answered:
    """Call the instance at `address`; `spool` makes the file for a good answer that is large."""
    framing, body = payload.framed()
    request = UpstreamRequest(b"POST", b"/invocations", [*_headers(leased), *framing], body)
    deadline = clock.monotonic() + leased.timeout_seconds
    try:
        done = None
        if isinstance(body, bytes) and len(body) <= PIECE_BYTES:
            done = await exchange(upstream, address, request, leased.timeout_seconds)
        if done is not None and done.incoming.complete:
            done.close()
            return _answered(leased, done.incoming.status, done.incoming.headers, done.body())
        async with asyncio.timeout(deadline - clock.monotonic()):
            if done is not None:
                return await _read(leased, done.awaited(), spool)
            timeouts = Timeouts(response=leased.timeout_seconds)
            return await _read(leased, await upstream.send(address, request, timeouts), spool)
    except (TimeoutError, TimedOut):
        return Answered(after_timeout(leased.timeout_seconds), 0)
    except ConnectFailed as error:
        return Answered(after_no_connection(f"The model was not called: {error}.", clock.now()), None)
    except UpstreamError as error:
        return Answered(after_fault(f"The model gave no answer: {error}.", leased.attempts, clock.now()), 0)


async def _read(leased: Leased, answer: UpstreamResponse, spool: Spool) -> Answered:
    """Read a good answer into a file, or the start of another into memory."""
    try:
        if not 200 <= answer.status < 300:
            return _answered(leased, answer.status, answer.headers, await _start_of(answer))
        file = spool()
        async for chunk in answer.chunks():
            file.write(chunk)
        return _answered(leased, answer.status, answer.headers, file)
    finally:
        answer.close()


async def _start_of(answer: UpstreamResponse) -> bytes:
    """The body, or as much of it that it can be told to be larger than a message may carry."""
    kept = b""
    async for chunk in answer.chunks():
        if len(kept) <= ANSWER_LIMIT_BYTES:
            kept += chunk
    return kept


def _answered(leased: Leased, status: int, headers: Headers, body: IO[bytes] | bytes) -> Answered:
    """What a whole answer means."""
    content_type = _content_type(headers)
    if 200 <= status < 300 or not isinstance(body, bytes):
        return Answered(Store(), status, content_type, body)
    text = body[:TEXT_LIMIT].decode("utf-8", "replace")
    step = after_answer(status, text, leased.attempts, clock.now())
    return Answered(step, status, content_type, error_body=body if len(body) <= ANSWER_LIMIT_BYTES else None)


def _content_type(headers: Headers) -> str:
    """The answer's content type, if it can be kept as an object's: stores take ASCII only, and not much of it."""
    text = next((value for name, value in headers if name == b"content-type"), b"").decode("latin-1")
    return text if text.isascii() and text.isprintable() and len(text) <= CONTENT_TYPE_LIMIT else ""


def _headers(leased: Leased) -> Headers:
    pairs = [
        (b"content-type", leased.content_type),
        (b"accept", leased.accept),
        (b"x-amzn-sagemaker-custom-attributes", leased.custom_attributes),
        (b"x-amzn-sagemaker-inference-id", leased.inference_id),
    ]
    return [(name, value.encode("latin-1")) for name, value in pairs if value]
