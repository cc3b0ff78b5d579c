"""Whom the client talks to: the reference container as a process, and raw servers that speak what a test needs."""

import asyncio
import atexit
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from controlplane.core import clock
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamRequest

REFERENCE = Path(__file__).parents[3] / "deploy" / "images" / "reference" / "server.py"
PATIENCE_SECONDS = 30.0
START_SECONDS = 120.0
TIMEOUTS = Timeouts(connect=PATIENCE_SECONDS, response=PATIENCE_SECONDS)

RESERVED_PORTS = 200

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_reserved: "deque[socket.socket]" = deque()


def free_port() -> int:
    """A port that nobody listens on, and that nobody else is given while there have not been many more of them.

    A socket keeps it that does not listen: connections are refused, and whoever is told the port may listen on it, since
    servers set SO_REUSEADDR; but the system gives it to no other process that asks for any port.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    if not _reserved:
        atexit.register(_give_back)
    _reserved.append(keeper)
    if len(_reserved) > RESERVED_PORTS:
        _reserved.popleft().close()
    return int(keeper.getsockname()[1])


def _give_back() -> None:
    while _reserved:
        _reserved.popleft().close()


@contextmanager
def reference_container() -> Iterator[str]:
    """The reference container; yields its address."""
    port = free_port()
    env = {"SAGEMAKER_BIND_TO_PORT": str(port), "PATH": os.defpath}
    with subprocess.Popen([sys.executable, "-S", "-E", REFERENCE], env=env) as process:
        try:
            _wait_for(port)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    deadline, pause = clock.monotonic() + START_SECONDS, threading.Event()
    while clock.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            pause.wait(0.02)
        else:
            return
    raise AssertionError("the reference container does not listen")


@asynccontextmanager
async def raw_server(talk: Talk) -> AsyncIterator[str]:
    """A server that reads a request's head and then does as `talk` says; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens by itself; raises TimeoutError when it does not."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def new_client() -> AsyncIterator[UpstreamClient]:
    """A client that is closed in the end."""
    client = UpstreamClient()
    try:
        yield client
    finally:
        client.close()


def post(body: bytes = b"", mode: str = "echo") -> UpstreamRequest:
    """An invocation that tells the reference container what to do."""
    headers = [(b"content-type", b"text/plain"), (b"x-amzn-sagemaker-custom-attributes", f"mode={mode}".encode())]
    return UpstreamRequest(b"POST", b"/invocations", headers, body)
