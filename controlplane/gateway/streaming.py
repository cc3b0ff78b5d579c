"""InvokeEndpointWithResponseStream: the container's answer, piece by piece as it comes, framed as an event stream.

    head, first piece -> 200 and a PayloadPart -> ... -> end of the body
        |                        |
        | broken, not 2xx        | broken: ModelStreamError StreamBroken       | our own fault: InternalStreamFailure
        v                        | too long: ... ModelInvocationTimeExceeded   v
    ModelError, as ever          v and the end of the body

The head goes out with the first piece, so whatever fails before is an ordinary error. A slow client slows the container
down: at most one piece and what the upstream client buffers are in memory. The time of the whole stream is limited, a slow
client's part included. Source: contract, data plane 1.3, 1.4 and 1.6.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

from controlplane.core import clock
from controlplane.core.errors import ValidationError
from controlplane.gateway.admission import admit, told_once
from controlplane.gateway.carry import Carrier
from controlplane.gateway.counting import Call
from controlplane.gateway.errand import Answer, Choice, Errand, container_request
from controlplane.gateway.http import Request
from controlplane.gateway.invoke import ERROR_BODY_BYTES, after, common_headers, first_part
from controlplane.gateway.patience import Patience
from controlplane.gateway.settings import Settings
from controlplane.routing.upstream import UpstreamError
from controlplane.wire import eventstream
from controlplane.wire.doors import runtime_params
from controlplane.wire.errors import hide

TIME_EXCEEDED, BROKEN = "ModelInvocationTimeExceeded", "StreamBroken"
"""ErrorCode of a ModelStreamError. boto3 shows its callers code and message only, hence the message names it too."""


class _Told(UpstreamError):
    """The container failed in the midst of its stream, which has told the client so and has ended in order."""


@dataclass
class Streamer:
    """Answers InvokeEndpointWithResponseStream."""

    settings: Settings
    carrier: Carrier

    async def invoke(self, request: Request, endpoint_name: str) -> None:
        """Answer one request; raises ApiError before the first byte of the answer."""
        call = Call(clock.monotonic())
        limit = self.settings.payload_limit_bytes
        too_large = ValidationError(f"Request body is larger than the allowed {limit} bytes.")
        key, body = await admit(request, limit, too_large, self.carrier.directory, self.settings.region)
        params = runtime_params("InvokeEndpointWithResponseStream", endpoint_name, told_once(request.headers), body)

        async def deliver(choice: Choice, answer: Answer, patience: Patience) -> None:
            del patience  # the time runs on while the client reads
            await self._answer(request, choice, answer)

        seconds = self.settings.stream_timeout_seconds
        with suppress(_Told):
            await self.carrier.carry(request, Errand(key, params, container_request(params), seconds), deliver, call)

    async def _answer(self, request: Request, choice: Choice, answer: Answer) -> None:
        pieces = until(stream_deadline(choice, self.settings), answer.pieces)
        is_success = answer.is_success
        try:
            held, _ = await first_part(pieces, 0 if is_success else ERROR_BODY_BYTES)
        except (UpstreamError, TimeoutError) as error:
            raise self.carrier.broken(choice, error) from error
        choice.call.answered(is_stream=is_success)
        if not is_success:
            raise self.carrier.model_error(choice, answer.status, held.decode("utf-8", "replace"))
        headers = _answer_headers(request, choice, answer)
        failures: list[str] = []
        await request.stream(200, headers, self._frames(request, choice, after(held, pieces), failures))
        if failures:
            raise _Told(failures[0])

    async def _frames(
        self, request: Request, choice: Choice, pieces: AsyncIterator[bytes], failures: list[str]
    ) -> AsyncIterator[bytes]:
        """The messages of the stream; the last one tells of its failure, if it fails: the model's go into `failures`."""
        try:
            async for piece in pieces:
                for message in eventstream.parts(piece):
                    yield message
        except TimeoutError:
            seconds = self.settings.stream_timeout_seconds
            failures.append(f"{TIME_EXCEEDED}: the stream took longer than {seconds:g} seconds")
            yield _model_failure(choice, TIME_EXCEEDED, failures[0])
        except UpstreamError as error:
            failures.append(f"{BROKEN}: the connection to the container broke: {error}")
            yield _model_failure(choice, BROKEN, failures[0])
        except Exception as fault:  # noqa: BLE001 - the head is out: logged by `hide`, told in the stream with an id
            choice.call.fail(is_model_error=False)
            yield eventstream.failure("InternalStreamFailure", {"Message": hide(fault, request.request_id).message})


def stream_deadline(choice: Choice, settings: Settings) -> float:
    """When a stream whose container was asked just now must be over, in monotonic seconds."""
    return (choice.call.asked or choice.call.started) + settings.stream_timeout_seconds


async def until(deadline: float, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces until the deadline; raises TimeoutError once it has passed, even if there is always a next piece."""
    while (left := deadline - clock.monotonic()) > 0:
        piece = await Patience(left).wait(anext(pieces, b""))
        if not piece:
            return
        yield piece
    raise TimeoutError


def _model_failure(choice: Choice, error_code: str, text: str) -> bytes:
    message = f"{text}. Variant {choice.variant.name} of endpoint {choice.route.endpoint_name}."
    return eventstream.failure("ModelStreamError", {"Message": message, "ErrorCode": error_code})


def _answer_headers(request: Request, choice: Choice, answer: Answer) -> list[tuple[bytes, bytes]]:
    content_type = answer.header(b"content-type") or b"application/octet-stream"
    return [
        (b"content-type", eventstream.CONTENT_TYPE.encode()),
        (b"x-amzn-sagemaker-content-type", content_type),
        *common_headers(request.request_id, choice, answer),
    ]
