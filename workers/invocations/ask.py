"""Asking a model: one call to an instance, its answer in a file, and what that means.

A payload is sent as bytes, or from a file, piece by piece; an answer is read into a file, so that neither has to fit into
memory. The limit is on the whole call: a container that answers in drips, or never, costs its caller's time and no more.
"""

import asyncio
from collections.abc import AsyncIterator
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
from workers.invocations.plan import (
    TEXT_LIMIT,
    Step,
    after_answer,
    after_fault,
    after_no_connection,
    after_timeout,
)
from workers.invocations.queue import Leased

PIECE_BYTES = 256 * 1024


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

    `error_body` is the body of a failed answer as far as a message may carry it, None where it is larger or there is none.
    """

    step: Step
    status: int | None
    content_type: str = ""
    error_body: bytes | None = None


async def ask(upstream: UpstreamClient, address: str, leased: Leased, payload: Payload, answer_file: IO[bytes]) -> Answered:
    """Call the instance at `address`; a good answer's body is written into `answer_file`."""
    framing, body = payload.framed()
    request = UpstreamRequest(b"POST", b"/invocations", [*_headers(leased), *framing], body)
    try:
        async with asyncio.timeout(leased.timeout_seconds):
            answer = await upstream.send(address, request, Timeouts(response=leased.timeout_seconds))
            try:
                return await _take(leased, answer, answer_file)
            finally:
                answer.close()
    except (TimeoutError, TimedOut):
        return Answered(after_timeout(leased.timeout_seconds), 0)
    except ConnectFailed as error:
        return Answered(after_no_connection(f"The model was not called: {error}.", clock.now()), None)
    except UpstreamError as error:
        return Answered(after_fault(f"The model gave no answer: {error}.", leased.attempts, clock.now()), 0)


async def _take(leased: Leased, answer: UpstreamResponse, answer_file: IO[bytes]) -> Answered:
    """Read the answer into the file, or the start of it into a reason."""
    kept, is_whole = b"", True
    async for chunk in answer.chunks():
        if 200 <= answer.status < 300:
            answer_file.write(chunk)
        elif len(kept) + len(chunk) <= ANSWER_LIMIT_BYTES:
            kept += chunk
        else:
            kept, is_whole = (kept + chunk)[:ANSWER_LIMIT_BYTES], False
    text = kept[:TEXT_LIMIT].decode("utf-8", "replace")
    step = after_answer(answer.status, text, leased.attempts, clock.now())
    return Answered(step, answer.status, _content_type(answer), kept if is_whole else None)


def _content_type(answer: UpstreamResponse) -> str:
    """The answer's content type, if it can be kept as an object's: stores take ASCII only."""
    text = (answer.header(b"content-type") or b"").decode("latin-1")
    return text if text.isascii() and text.isprintable() else ""


def _headers(leased: Leased) -> Headers:
    pairs = {
        b"content-type": leased.content_type,
        b"accept": leased.accept,
        b"x-amzn-sagemaker-custom-attributes": leased.custom_attributes,
        b"x-amzn-sagemaker-inference-id": leased.inference_id,
    }
    return [(name, value.encode("latin-1")) for name, value in pairs.items() if value]
