"""The plainest of puts, answered before nanio's application is asked: most of what a worker asks of a store.

    PUT of a small object, whole, with no header but the usual ones, its signature and its hash good ---> kept: 200
      | anything else                                                               | it cannot be kept
      v                                                                             v
    nanio's application, which knows every kind of request, and how each is refused

Checking costs less here than there, since what all requests of a day have the same is kept; nothing is refused here but a
body that is not the one that was signed, which nanio takes.
"""

from dataclasses import dataclass
from typing import Any

from nanio.errors import S3Error
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.auth.sigv4 import Key, SignedRequest, body_hash, scope_of, verify
from controlplane.core import clock
from controlplane.core.errors import AuthenticationError
from controlplane.embedded.small_objects.log import LogFailed
from controlplane.embedded.small_objects.storage import SMALL_BYTES, Storage

PATH_BYTES = 246
"""A path of no more has no name in it that is too long for a file."""

METADATA_BYTES = 2048
HASH_DIGITS = 64
_METADATA = b"x-amz-meta-"
_USUAL = frozenset(
    {
        *(b"host", b"authorization", b"x-amz-date", b"x-amz-content-sha256", b"content-length", b"content-type"),
        *(b"user-agent", b"accept", b"accept-encoding", b"connection", b"amz-sdk-invocation-id", b"amz-sdk-request"),
        *(b"expect", b"x-amz-sdk-checksum-algorithm", b"x-amz-checksum-crc32"),
    }
)
"""What SDKs send with every put. Their own checksum says no more than the hash that they signed."""

_MISMATCH = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>XAmzContentSHA256Mismatch</Code>'
    b"<Message>The body is not the one that was signed.</Message></Error>"
)


@dataclass(frozen=True, slots=True)
class _Put:
    """A request that may be answered here."""

    bucket: str
    key: str
    headers: dict[bytes, bytes]
    metadata: dict[str, str]


class QuickPuts:
    """`inner`, with plain puts answered here; `credentials` are nanio's."""

    def __init__(self, inner: ASGIApp, storage: Storage, credentials: Any) -> None:
        self._inner = inner
        self._storage = storage
        self._credentials = credentials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        put = _plain_put(scope)
        if put is None or not self._is_signed(put, scope) or not self._is_prepared(put):
            await self._inner(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            return
        if body_hash(body).encode() != put.headers[b"x-amz-content-sha256"]:
            await _answer(send, 400, (b"content-type", b"application/xml"), _MISMATCH)
        elif (etag := await self._keep(put, body)) is not None:
            await _answer(send, 200, (b"etag", etag.encode()), b"")
        else:
            await self._inner(scope, _again(body), send)

    def _is_signed(self, put: _Put, scope: Scope) -> bool:
        """Whether the signature is good for the hash that it says the body has."""
        headers = tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in put.headers.items()])
        claimed = scope_of(headers, "")
        if claimed is None:
            return False
        digest = put.headers[b"x-amz-content-sha256"].decode("latin-1")
        request = SignedRequest("PUT", scope["path"], "", headers, digest)
        try:
            verify(request, self._key, region=claimed.region, service="s3", now=clock.now())
        except AuthenticationError:
            return False
        return True

    def _key(self, access_key_id: str) -> Key | None:
        secret = self._credentials.resolve(access_key_id)
        return Key(access_key_id, secret, "") if secret is not None else None

    def _is_prepared(self, put: _Put) -> bool:
        """Whether there is a place for it; before its body is asked for."""
        try:
            self._storage.prepare(put.bucket, put.key)
        except (S3Error, OSError):
            return False
        return True

    async def _keep(self, put: _Put, body: bytes) -> str | None:
        """The ETag of the object that is kept, None where it could not be."""
        content_type = put.headers.get(b"content-type", b"application/octet-stream").decode("latin-1")
        members = {"content_type": content_type, "user_metadata": put.metadata}
        try:
            info = await self._storage.keep(put.bucket, put.key, body, members)
        except (S3Error, OSError, LogFailed):
            return None
        return str(info.etag)


def _plain_put(scope: Scope) -> _Put | None:
    if scope["type"] != "http" or scope["method"] != "PUT" or scope["query_string"] or len(scope["raw_path"]) > PATH_BYTES:
        return None
    headers = dict(scope["headers"])
    if len(headers) != len(scope["headers"]) or not _is_small(headers) or not _is_hashed(headers):
        return None
    metadata = {}
    for name in headers.keys() - _USUAL:
        if not name.startswith(_METADATA):
            return None
        metadata[name.decode("latin-1")] = headers[name].decode("latin-1")
    if sum(map(len, metadata)) + sum(map(len, metadata.values())) > METADATA_BYTES:
        return None
    bucket, _, key = scope["path"][1:].partition("/")
    return _Put(bucket, key, headers, metadata) if key else None


def _is_small(headers: dict[bytes, bytes]) -> bool:
    length = headers.get(b"content-length", b"")
    return length.isdigit() and int(length) <= SMALL_BYTES


def _is_hashed(headers: dict[bytes, bytes]) -> bool:
    """Whether the hash of the whole body is signed, which is not where it is said to be unsigned or to come in parts."""
    return len(headers.get(b"x-amz-content-sha256", b"")) == HASH_DIGITS


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None where the client has gone."""
    chunks = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


def _again(body: bytes) -> Receive:
    """Receives a body that was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


async def _answer(send: Send, status: int, header: tuple[bytes, bytes], body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [header, length]})
    await send({"type": "http.response.body", "body": body})
