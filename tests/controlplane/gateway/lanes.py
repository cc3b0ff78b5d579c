"""One gateway in the test's own loop, open on two ports: with the express way and without it; and a scripted instance.

It has no database: what it knows of keys and routes is given to it. Nothing in it is replaced.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import uvicorn
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from uvicorn.server import ServerState

from controlplane.auth import bearer
from controlplane.auth.roles import Role
from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from controlplane.gateway.app import Gateway
from controlplane.gateway.express_calls import ExpressCallProtocol
from controlplane.gateway.http import Message, Receive, Send
from controlplane.gateway.protocol import CautiousHttpProtocol
from controlplane.gateway.settings import Settings
from controlplane.gateway.tokens import Token, digest_in
from controlplane.routing.table import Route, Table, Target, VariantRoute
from tests.controlplane.routing.peers import until

ACCOUNT, REGION = "123456789012", "us-east-1"
KEY = Key("AKIALANES", "secret", ACCOUNT)
API_TOKEN = "hr_of-an-operator"
TOKEN = Token(ACCOUNT, "operator", datetime.max.replace(tzinfo=UTC), Role.OPERATOR)
NAME = "lanes"
PATH = f"/endpoints/{NAME}/invocations"
CHAT = f"/endpoints/{NAME}/openai/v1/chat/completions"
PAYLOAD_LIMIT_BYTES = 10_000
PATIENCE_SECONDS = 30.0

GOOD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"

_ENV = {
    "HEADRACE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
    "HEADRACE_REDIS_URL": "redis://127.0.0.1:1",
    "HEADRACE_API_URL": "http://127.0.0.1:1",
    "HEADRACE_S3_ENDPOINT_URL": "http://127.0.0.1:1",
    "HEADRACE_SECRET_KEY": "unused",
    "HEADRACE_PAYLOAD_LIMIT_BYTES": str(PAYLOAD_LIMIT_BYTES),
}


class Keys:
    """The keys that there are."""

    def find(self, access_key_id: str) -> Key | None:
        return KEY if access_key_id == KEY.access_key_id else None


class CountingGateway(Gateway):
    """A gateway that counts what goes the ordinary way from the beginning."""

    ordinary = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.ordinary += 1
        await super().__call__(scope, receive, send)


@dataclass
class Instance:
    """Answers each request with the next of its answers, the last one again and again; None = keeps silent.

    A connection on which it has said `says_goodbye` is closed after the answer.
    """

    answers: list[bytes | None]
    says_goodbye: bool = False
    requests: list[bytes] = field(default_factory=list)
    lost: int = 0
    """Connections that the gateway closed."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                self.requests.append(head + await reader.readexactly(int(length[1]) if length else 0))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
                if self.says_goodbye:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lost += 1
        finally:
            writer.close()


@dataclass
class Lanes:
    """The gateway and its two ports."""

    gateway: CountingGateway
    instance: Instance
    target: Target
    express_port: int
    plain_port: int
    tasks: "set[asyncio.Task[None]]"

    async def quiet(self) -> None:
        """Wait until no call is under way."""
        await until(lambda: not self.in_flight and not self.tasks)

    @property
    def in_flight(self) -> int:
        return self.gateway.carrier.balancer.in_flight.at(self.target.instance_id)

    def learnt(self) -> dict[str, Any]:
        """What the gateway has learnt since it was warm: what was counted, which sessions there are, how instances do."""
        carrier = self.gateway.carrier
        tallies = [
            tally for bucket in carrier.counts._buckets.values() for each in bucket.values() for tally in each.values()
        ]
        names = ("calls", "errors_4xx", "errors_5xx", "model_errors")
        return {
            **{name: sum(getattr(tally, name) for tally in tallies) for name in names},
            "answered": sum(sum(tally.model_latency.bins.values()) for tally in tallies),
            "sessions": sorted(carrier.sessions._known),
            "health": {name: health.failures for name, health in carrier.balancer._health.items()},
        }

    def publish(self, *variants: VariantRoute, shadows: tuple[VariantRoute, ...] = ()) -> None:
        """Let the endpoint have these variants."""
        route = Route("endpoint-id", ACCOUNT, NAME, "InService", True, None, variants, shadows)
        self.gateway.carrier.directory.table = Table.of([route])

    async def warm(self) -> None:
        """Have a connection to the instance kept."""
        kept, self.instance.answers = self.instance.answers, [GOOD]
        goodbye, self.instance.says_goodbye = self.instance.says_goodbye, False
        answer = await call(self.plain_port, request(b"warm"))
        assert answer.startswith(b"HTTP/1.1 200"), answer
        self.instance.answers, self.instance.says_goodbye = kept, goodbye
        await self.quiet()
        self.forget()

    def forget(self) -> None:
        """Let the gateway know nothing of calls."""
        carrier = self.gateway.carrier
        carrier.counts._buckets.clear()
        carrier.counts._current_until = float("-inf")
        carrier.sessions._known.clear()
        carrier.balancer._health.clear()
        self.gateway.ordinary = 0
        self.instance.requests.clear()


@asynccontextmanager
async def lanes(*answers: bytes | None, says_goodbye: bool = False, **changes: str) -> AsyncIterator[Lanes]:
    """A gateway whose one instance answers like this, with a connection to it kept; `changes` are of its settings."""
    instance = Instance(list(answers), says_goodbye)
    upstream = await asyncio.start_server(instance.serve, "127.0.0.1", 0, limit=2**20)
    target = Target("instance-1", f"127.0.0.1:{upstream.sockets[0].getsockname()[1]}", "ml.m5.large", False)
    gateway = CountingGateway(Settings.read({**_ENV, **changes}))
    directory = gateway.carrier.directory
    directory.keys = Keys()  # type: ignore[assignment]
    directory.tokens._tokens = {digest: TOKEN for digest in [digest_in(f"Bearer {API_TOKEN}")] if digest}
    directory._fresh_at = 0.0
    state = ServerState()
    async with (
        _open(gateway, ExpressCallProtocol, state) as express,
        _open(gateway, CautiousHttpProtocol, state) as plain,
        upstream,
    ):
        found = Lanes(gateway, instance, target, express, plain, state.tasks)
        found.publish(VariantRoute("main", 1.0, "RANDOM", (target,)))
        await found.warm()
        yield found
        gateway.carrier.upstream.close()


@asynccontextmanager
async def _open(gateway: Gateway, protocol: type[CautiousHttpProtocol], state: ServerState) -> AsyncIterator[int]:
    config = uvicorn.Config(gateway, ws="none", access_log=False, server_header=False, lifespan="off")
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}, loop), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)


def request(
    body: bytes = b"payload",
    headers: dict[str, str] | None = None,
    path: str = PATH,
    secret: str = KEY.secret,
    access_key_id: str = KEY.access_key_id,
) -> bytes:
    """A whole signed request."""
    asked = AWSRequest("POST", f"http://gateway{path}", data=body, headers={"Host": "gateway", **(headers or {})})
    SigV4Auth(Credentials(access_key_id, secret), "sagemaker", REGION).add_auth(asked)
    head = {**dict(asked.headers), "Content-Length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


def with_token(path: str, body: bytes = b"{}", headers: dict[str, str] | None = None, token: str = "") -> bytes:
    """A whole request with a bearer token, a good one of the key's where none is given."""
    own = bearer.issue(KEY, region=REGION, service="sagemaker", now=clock.now())
    head = {
        "Host": "gateway",
        "Authorization": f"Bearer {token or own}",
        **(headers or {}),
        "Content-Length": str(len(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


async def call(port: int, data: bytes) -> bytes:
    """What is answered on a connection of its own."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        try:
            writer.write(data)
            return await read_answer(reader)
        finally:
            writer.close()


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """One answer: its head, and its body without the frames of chunks. One that breaks off ends with `[broken off]`."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head:
            return head + await _chunks(reader)
        length = re.search(rb"content-length: (\d+)", head)
        return head + await reader.readexactly(int(length[1]) if length else 0)
    except asyncio.IncompleteReadError:
        return b"[broken off]"


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


def comparable(answer: bytes) -> bytes:
    """An answer without what differs from call to call: ids and the date."""
    answer = re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"ID", answer)
    return re.sub(rb"date: [^\r]+", b"date: NOW", answer, flags=re.IGNORECASE)
