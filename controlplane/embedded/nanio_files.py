"""The server of the embedded store: nanio, which keeps objects as files, and what it leaves to be desired.

**Keys that have no place among files.** A key of S3 is a text; here its parts are folders and a file. So a part of more
than 246 bytes has no place (the files that nanio keeps about it have longer names), nor has a key that goes on below an
object. nanio answers such a key as it answers a full disk: 500, try again. Whoever waits for the store would do so for
hours; here it is told what is the matter, and nothing of the object is left behind.

    GET, HEAD, DELETE    404: no such object can be there
    PUT, POST            400: nor be put there

A key with `..` between backslashes has none either: nanio would write it and then fail on every list. All methods are told
400, as nanio tells them of `..` between slashes.

**Bodies that were announced and never sent.** A client that asks first (Expect: 100-continue, as AWS's SDKs do) and hears
no does not send its body. The server would take the next request on that connection for it, which may be anybody's: so
the connection ends with such an answer (RFC 9110, 10.1.1).

**Small objects**, which are most of what it is asked to keep, take a way of their own: see `small_objects`. Where nanio
itself changes an object, the way is cleared of what a killed process left there, and the answer waits until nothing of the
old object could come back.
"""

from http import HTTPStatus
from urllib.parse import unquote_to_bytes

from nanio.app import build_app
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.embedded.small_objects.files import NO_PLACE
from controlplane.embedded.small_objects.quick import QuickPuts
from controlplane.embedded.small_objects.storage import Storage, is_way_out

NAME_BYTES = 246
_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
_WRITES = ("PUT", "POST")
_CHANGES = (*_WRITES, "DELETE")

_NO_SUCH_KEY = (404, "NoSuchKey", "There is no such object, nor could there be: this store keeps objects as files.")
_NO_PLACE = (
    400,
    "InvalidObjectName",
    f"This store keeps objects as files: {NAME_BYTES} bytes between slashes, no `..`, no key below or above another's.",
)


def app() -> ASGIApp:
    """The application, as its server makes it; the settings are in the environment."""
    made = build_app()
    made.add_exception_handler(OSError, _answer)
    settings = made.state.settings
    storage = made.state.storage = Storage(settings.data_dir)
    return QuickPuts(Careful(Changing(made, storage)), storage, settings.credentials)


class Careful:
    """`inner`, with keys refused that have no place, and the connection ended where a body will not come."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        inner = _refuse if scope["method"] in _WRITES and _has_no_place(scope) else self._inner
        if Headers(scope=scope).get("expect", "").lower() == "100-continue":
            await _expecting(inner, scope, receive, send)
        else:
            await inner(scope, receive, send)


class Changing:
    """`inner`, by which an object may change that the log of small objects holds."""

    def __init__(self, inner: ASGIApp, storage: Storage) -> None:
        self._inner = inner
        self._storage = storage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _CHANGES:
            await self._inner(scope, receive, send)
            return
        bucket, _, key = scope["path"][1:].partition("/")
        self._storage.clear_way(bucket, key)

        async def send_it(message: Message) -> None:
            if message["type"] == "http.response.start":
                if _completes(scope) and message["status"] == HTTPStatus.OK:
                    self._storage.forget(bucket, key)
                await self._storage.changed()
            await send(message)

        await self._inner(scope, receive, send_it)


def _completes(scope: Scope) -> bool:
    """Whether it completes an upload in parts, which nanio does past its storage."""
    return scope["method"] == "POST" and b"uploadId=" in scope["query_string"]


async def _expecting(inner: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a client that asks first."""
    was_asked_for = False

    async def receive_it() -> Message:
        nonlocal was_asked_for
        was_asked_for = True
        return await receive()

    async def send_it(message: Message) -> None:
        if message["type"] == "http.response.start" and not was_asked_for:
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    await inner(scope, receive_it, send_it)


def _has_no_place(scope: Scope) -> bool:
    parts = scope["raw_path"].split(b"/")
    return is_way_out(scope["path"]) or any(len(unquote_to_bytes(part)) > NAME_BYTES for part in parts)


def _response(status: int, code: str, message: str) -> Response:
    return Response(_ERROR.format(code=code, message=message), status, media_type="application/xml")


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await _response(*_NO_PLACE)(scope, receive, send)


async def _answer(request: Request, fault: Exception) -> Response:
    """What a key is told that has no place; any other fault of the disk is nanio's to tell."""
    if not isinstance(fault, OSError) or fault.errno not in NO_PLACE:
        raise fault
    return _response(*(_NO_PLACE if request.method in _WRITES else _NO_SUCH_KEY))
