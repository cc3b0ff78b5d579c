"""Sending requests through whatever happens, and keeping what was promised.

Each try of a request has an InferenceId of its own, so that a try whose answer was lost, which may have been stored or
not, is never mistaken for the one that was answered with 202.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from controlplane.core import clock
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamError, UpstreamRequest

CONNECTIONS = 16
TIMEOUTS = Timeouts(connect=5.0, response=15.0)
AFTER_FAULT_SECONDS = 0.2
ANSWER_LIMIT = 64 * 1024
ACCEPTED = 202


@dataclass(frozen=True)
class Promise:
    """What the gateway said when it accepted a request: where its answer will be; and the MD5 that the answer will have."""

    output_location: str
    failure_location: str
    md5: str


@dataclass
class Traffic:
    """`jobs` requests to one endpoint, at most `rate` a second; `promises` by InferenceId."""

    url: str
    credentials: Credentials
    endpoint: str
    jobs: int
    rate: float = float("inf")
    promises: dict[str, Promise] = field(default_factory=dict)
    tries: int = 0

    async def send(self) -> None:
        """Send them all, each until it is accepted."""
        client, numbers = UpstreamClient(), iter(range(self.jobs))
        self._began = clock.monotonic()
        try:
            async with asyncio.TaskGroup() as senders:
                for _ in range(CONNECTIONS):
                    senders.create_task(self._send_some(client, numbers))
        finally:
            client.close()

    async def _send_some(self, client: UpstreamClient, numbers: Iterator[int]) -> None:
        for number in numbers:
            await asyncio.sleep(self._began + number / self.rate - clock.monotonic())
            for attempt in count(1):
                self.tries += 1
                if await self._try(client, f"job-{number}-{attempt}", body_of(number)):
                    break
                await asyncio.sleep(AFTER_FAULT_SECONDS)

    async def _try(self, client: UpstreamClient, inference_id: str, body: bytes) -> bool:
        """Whether the try was accepted; what was is written down."""
        try:
            answer = await client.send(self.url.partition("://")[2], self._request(inference_id, body), TIMEOUTS)
            try:
                said = await answer.read(ANSWER_LIMIT)
            finally:
                answer.close()
        except UpstreamError:
            return False
        if answer.status < 500 and answer.status != ACCEPTED:
            raise AssertionError(f"{inference_id} was answered with {answer.status}: {said.decode()}")
        if answer.status != ACCEPTED:
            return False
        assert json.loads(said)["InferenceId"] == inference_id
        places = [answer.header(b"x-amzn-sagemaker-" + name) or b"" for name in (b"outputlocation", b"failurelocation")]
        self.promises[inference_id] = Promise(places[0].decode(), places[1].decode(), hashlib.md5(body).hexdigest())
        return True

    def _request(self, inference_id: str, body: bytes) -> UpstreamRequest:
        path = f"/endpoints/{self.endpoint}/async-invocations"
        headers = {
            "Host": self.url.partition("://")[2],
            "X-Amzn-SageMaker-Content-Type": "application/octet-stream",
            "X-Amzn-SageMaker-Inference-Id": inference_id,
        }
        request = AWSRequest("POST", self.url + path, data=body, headers=headers)
        SigV4Auth(self.credentials, "sagemaker", "us-east-1").add_auth(request)
        pairs = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
        return UpstreamRequest(b"POST", path.encode(), pairs, body)


def body_of(number: int) -> bytes:
    """The body of one request, unlike every other's."""
    return b"job %d " % number + b"." * (number % 700)
