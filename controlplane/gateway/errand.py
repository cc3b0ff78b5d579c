"""A call on its way: what its caller wants, where it goes, and what comes back."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from controlplane.core.errors import ModelError, ServiceUnavailable
from controlplane.gateway.admission import Caller
from controlplane.gateway.counting import Call
from controlplane.gateway.patience import Patience
from controlplane.gateway.sessions import CLOSED_SESSION_HEADER, NEW_SESSION_HEADER
from controlplane.routing.prefix import Ask
from controlplane.routing.table import Route, Target, VariantRoute
from controlplane.routing.upstream import Headers, UpstreamRequest

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


class Head:
    """How the container answers, its body aside."""

    __slots__ = ("_values", "headers", "is_success", "status")

    def __init__(self, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers
        self.is_success = 200 <= status < 300
        self._values = dict(reversed(headers))  # of several of one name the first one counts

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header (lower-case name)."""
        return self._values.get(name)

    @property
    def tells_of_sessions(self) -> bool:
        """Whether a session begins or ends with the answer."""
        return self.is_success and bool(self.header(NEW_SESSION_HEADER) or self.header(CLOSED_SESSION_HEADER))


class Answer(Head):
    """What the container answers: the head is there, the body comes in `pieces`, to be read once."""

    __slots__ = ("pieces",)

    def __init__(self, status: int, headers: Headers, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(status, headers)
        self.pieces = pieces


Deliver = Callable[[Choice, Answer, Patience], Awaitable[None]]
"""Takes the answer, whose head is there, to the client. The patience is what is left of the time for the container."""


@dataclass(frozen=True)
class Errand:
    """One call to be carried: who asks, the checked members, and what the container is asked.

    The container has `seconds` until the head of its answer is there.
    """

    caller: Caller
    params: dict[str, Any]
    ask: UpstreamRequest
    seconds: float

    def may_be_captured(self, answer: Head) -> bool:
        """Whether there is anything to keep of the call: it is one of the model, and the model did not refuse it."""
        return answer.is_success and self.ask.method == b"POST"


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
