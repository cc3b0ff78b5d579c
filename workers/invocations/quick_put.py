"""Small objects put over the loop's own connections: what most outputs are, at a fraction of what an SDK call costs.

    small, in clear, a store at a plain http:// address ----> signed, sent ----> 200: kept
      | no                                                             | anything else
      v                                                                v
    the SDK's call, which knows about retries, redirects, TLS, encryption and every kind of answer

The SDK call takes its time in Python, some milliseconds of it, in a thread that the loop has to share the processor with.
The credentials are botocore's here too. An object put twice is the same object.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from controlplane.auth.sigv4 import ALGORITHM, Scope, SignedRequest, body_hash, sign, stamp_of
from controlplane.core import clock
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamError, UpstreamRequest
from workers.invocations.exchange import exchange

SMALL_BYTES = 256 * 1024
ANSWER_LIMIT_BYTES = 64 * 1024
SECONDS = 30.0

_UNESCAPED = "/-_.~"
_SERVICE = "s3"


class QuickPut:
    """Puts objects into one store by path-style addresses; `credentials` are botocore's, or None for none."""

    def __init__(self, endpoint_url: str, region: str, credentials: Any) -> None:
        place = urlsplit(endpoint_url)
        self._address = (
            f"{place.hostname}:{place.port or 80}" if place.scheme == "http" and not place.path.strip("/") else ""
        )
        self._region = region
        self._credentials = credentials
        self._client = UpstreamClient()

    async def __call__(self, bucket: str, key: str, body: bytes, headers: Mapping[str, str]) -> bool:
        """Whether the object is kept; False where that is not known, and the SDK should put it.

        `headers` have lower-case names.
        """
        if not self._address or self._credentials is None or len(body) > SMALL_BYTES:
            return False
        path = f"/{bucket}/{key}"
        target = quote(path, safe=_UNESCAPED).encode()
        request = UpstreamRequest(b"PUT", target, self._signed(path, body, headers), body)
        try:
            status = await self._send(request)
        except UpstreamError:
            return False
        return status == 200  # PutObject has no other success

    async def _send(self, request: UpstreamRequest) -> int:
        """The answer's status."""
        done = await exchange(self._client, self._address, request, SECONDS)
        if done is not None:
            done.close()
            return done.incoming.status
        answer = await self._client.send(self._address, request, Timeouts(response=SECONDS))
        try:
            await answer.read(ANSWER_LIMIT_BYTES)
        finally:
            answer.close()
        return answer.status

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _signed(self, path: str, body: bytes, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """The headers, signed. S3 encodes the path once, other services what is on the wire: so the bare path is given."""
        keys, now = self._credentials.get_frozen_credentials(), clock.now().replace(microsecond=0)
        stamp, digest = stamp_of(now), body_hash(body)
        named = {**headers, "host": self._address, "x-amz-content-sha256": digest, "x-amz-date": stamp}
        if keys.token:
            named["x-amz-security-token"] = keys.token
        names = tuple(sorted(named))
        request = SignedRequest("PUT", path, "", tuple(named.items()), digest)
        scope = Scope(keys.access_key, stamp[:8], self._region, _SERVICE)
        signature = sign(request, scope, names, now, keys.secret_key)
        credential = f"{keys.access_key}/{scope.date}/{scope.region}/{_SERVICE}/aws4_request"
        named["authorization"] = (
            f"{ALGORITHM} Credential={credential}, SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
