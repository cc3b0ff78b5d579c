"""Small objects put over the loop's own connections: what most outputs are, at a fraction of what an SDK call costs.

    small, in clear, a store at a plain http:// address ----> signed, sent ----> 200: kept
      | no                                                             | anything else
      v                                                                v
    the SDK's call, which knows about retries, redirects, TLS, encryption and every kind of answer

The SDK call takes its time in Python, some milliseconds of it, in a thread that the loop has to share the processor with.
The signature and the credentials are botocore's here too. An object put twice is the same object.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamError, UpstreamRequest

SMALL_BYTES = 256 * 1024
ANSWER_LIMIT_BYTES = 64 * 1024
SECONDS = 30.0

_UNESCAPED = "/-_.~"


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
        """Whether the object is kept; False where that is not known, and the SDK should put it."""
        if not self._address or self._credentials is None or len(body) > SMALL_BYTES:
            return False
        path = quote(f"/{bucket}/{key}", safe=_UNESCAPED)
        request = UpstreamRequest(b"PUT", path.encode(), self._signed(path, body, headers), body)
        try:
            answer = await self._client.send(self._address, request, Timeouts(response=SECONDS))
            try:
                await answer.read(ANSWER_LIMIT_BYTES)
            finally:
                answer.close()
        except UpstreamError:
            return False
        return answer.status == 200  # PutObject has no other success

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _signed(self, path: str, body: bytes, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        request = AWSRequest("PUT", f"http://{self._address}{path}", {**headers, "Host": self._address}, body)
        S3SigV4Auth(self._credentials.get_frozen_credentials(), "s3", self._region).add_auth(request)
        return [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
