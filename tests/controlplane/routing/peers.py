"""Whom the client talks to: the reference container as a process, and raw servers that speak what a test needs."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from controlplane.core import clock
from controlplane.routing.upstream import Timeouts, UpstreamClient, UpstreamRequest

REFERENCE = Path(__file__).parents[3] / "deploy" / "images" / "reference" / "server.py"
PATIENCE_SECONDS = 30.0
START_SECONDS = 120.0
QUICK = Timeouts(connect=1.0, response=5.0)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
        except ConnectionRefusedError:
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
