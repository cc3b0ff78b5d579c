"""Passing requests on: to the API whole, to the store as a stream. Host stays as it came, since signatures cover it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from controlplane.core.errors import ApiError, RequestTooLarge, ServiceUnavailable
from controlplane.gateway.http import RawHeaders, Request
from controlplane.gateway.patience import Patience
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamError, UpstreamRequest, UpstreamResponse

API_BODY_LIMIT_BYTES = 4 * 1024 * 1024
API_TIMEOUTS = Timeouts(connect=2.0, response=60.0)
STORE_TIMEOUTS = Timeouts(connect=2.0, response=900.0)
"""An upload counts as well; a client that stalls in the midst of one is cut off long before."""

REQUEST_ID_HEADER = "headrace-request-id"
"""Tells the API under which id the request is known here; taken from nobody else."""

_AS_A_STRANGER = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""What an object is served with: a link to one may be opened where an operator is logged in, and objects are anybody's."""

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
    }
)
_OWN = frozenset({REQUEST_ID_HEADER, "forwarded"})
_FRAMING = frozenset({"transfer-encoding", "content-length"})


@dataclass
class Relay:
    """Carries what is not the gateway's own to whoever it belongs to."""

    upstream: UpstreamClient
    api_address: str
    store_address: str

    async def to_api(self, request: Request) -> None:
        """Pass a request to the API, its body read first: it is small, and it goes on with its length."""
        too_large = RequestTooLarge(f"The body may hold {API_BODY_LIMIT_BYTES} bytes.")
        body, _ = await request.body(API_BODY_LIMIT_BYTES, too_large)
        headers = [*_passed_on(request, drop=_FRAMING), (REQUEST_ID_HEADER.encode(), request.request_id.encode())]
        call = UpstreamRequest(request.method.encode(), _target(request), headers, body)
        await self._pass(request, self.api_address, call, API_TIMEOUTS)

    async def to_store(self, request: Request) -> None:
        """Pass a request to the embedded store, streamed both ways, framed as it came."""
        headers = _passed_on(request, drop=frozenset())
        has_body = any(name in _FRAMING for name, _ in request.headers)
        body = _reframed(request) if has_body else b""
        call = UpstreamRequest(request.method.encode(), _target(request), headers, body)
        await self._pass(request, self.store_address, call, STORE_TIMEOUTS, added=_AS_A_STRANGER)

    async def _pass(
        self, request: Request, address: str, call: UpstreamRequest, timeouts: Timeouts, added: RawHeaders = ()
    ) -> None:
        try:
            answer = await self.upstream.send(address, call, timeouts)
        except UpstreamError as error:
            raise _unavailable() from error
        try:
            pieces = Patience(timeouts.response).over(answer.chunks())
            headers = [*_answer_headers(answer), *added]
            await request.unless_gone(request.stream(answer.status, headers, pieces))
        finally:
            answer.close()


def _passed_on(request: Request, *, drop: frozenset[str]) -> list[tuple[bytes, bytes]]:
    """The headers that go on.

    None of one hop, none that only the gateway sets, none that a WSGI server would mistake for another (`a_b`, `a-b`).
    """
    dropped = _HOP_BY_HOP | _OWN | drop | _of_this_hop(request)
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers
        if name not in dropped and "_" not in name and not name.startswith("x-forwarded-")
    ]


def _of_this_hop(request: Request) -> frozenset[str]:
    """What the client itself declares to be of this hop only; the framing is not its to drop."""
    named = (request.header("connection") or "").lower().split(",")
    return frozenset(name.strip() for name in named) - _FRAMING


async def _reframed(request: Request) -> AsyncIterator[bytes]:
    """The body in the framing that its headers promise: as it is by length, else in chunks."""
    is_chunked = request.header("transfer-encoding") is not None
    async for chunk in request.chunks():
        if chunk:
            yield b"%x\r\n%s\r\n" % (len(chunk), chunk) if is_chunked else chunk
    if is_chunked:
        yield b"0\r\n\r\n"


def _target(request: Request) -> bytes:
    query = f"?{request.query}" if request.query else ""
    return f"{request.raw_path}{query}".encode("latin-1")


def _answer_headers(answer: UpstreamResponse) -> list[tuple[bytes, bytes]]:
    return [
        (name, value)
        for name, value in answer.headers
        if name.decode("latin-1") not in _HOP_BY_HOP and name not in (b"transfer-encoding", b"date", b"server")
    ]


def _unavailable() -> ApiError:
    return ServiceUnavailable("The service is starting or restarting. Try again in a moment.")
