"""The engine simulator: an LLM server that has no model, but takes as long and remembers as much as one that has.

    GET  /ping, /health           200 once it listens
    GET  /metrics                 as vLLM (or SGLang) tells how it does
    GET  /v1/models               its one model
    POST /v1/chat/completions     an answer of made-up words, whole or as server-sent events
    POST /v1/completions          likewise, for a prompt
    POST /invocations             either, by the shape of the JSON; anything else is taken for a prompt as it is

How long things take is decided in `core`; four characters are one token. It listens on SAGEMAKER_BIND_TO_PORT (8080) and
needs only the standard library. What it is told, all optional:

    ENGINE_PREFILL_RATE    20000    prompt tokens computed a second
    ENGINE_STEP_MS         22       a step's fixed part: the time between two tokens of one request alone
    ENGINE_DECODE_MS       0.4      what each further request in the batch adds to it
    ENGINE_STEP_TOKENS     4096     prompt tokens computed in one step
    ENGINE_SEATS           64       requests in the batch
    ENGINE_BLOCK_TOKENS    16       tokens of a cache block
    ENGINE_CACHE_BLOCKS    30000    blocks of the cache
    ENGINE_OUTPUT_TOKENS   128      length of an answer when the request sets no max_tokens
    ENGINE_SEED            0        chooses the words
    ENGINE_TIME_SCALE      1        0.01: a minute passes in 0.6 s
    ENGINE_METRICS         vllm     vllm, vllm-old or sglang: whose names /metrics has
    ENGINE_MODEL           headrace-engine
    ENGINE_SINK                     a journal: a JSON line with the path of each request that was read
    ENGINE_BIND            127.0.0.1
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from batch import Batch
from completions import BadRequest, Settings, Wish, answer_of, events_of, wish_of
from core import Speed
from metrics import STYLES, page
from talk import Reader, Request, Writer, chunk, head, read_request, whole, whole_json

T = TypeVar("T")


@dataclass
class Server:
    """Answers requests over one batch."""

    batch: Batch
    settings: Settings
    style: str
    sink: str

    async def serve(self, reader: Reader, writer: Writer) -> None:
        """One connection, kept alive; a request that is no HTTP closes it."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            while (request := await read_request(reader, writer)) is not None:
                await self._answer(request, reader, writer)
                await writer.drain()
                if request.headers.get("connection", "").lower() == "close":
                    break
        writer.close()

    async def _answer(self, request: Request, reader: Reader, writer: Writer) -> None:
        answers: dict[tuple[str, str], Callable[[Request, Reader, Writer], Awaitable[None]]] = {
            ("GET", "/ping"): self._ping,
            ("GET", "/health"): self._ping,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
            ("POST", "/invocations"): self._complete,
            ("POST", "/v1/completions"): self._complete,
            ("POST", "/v1/chat/completions"): self._complete,
        }
        self._note(request)
        answer = answers.get((request.method, request.path))
        if answer is None:
            whole_json(writer, {"error": {"message": "no such path"}}, 404)
            return
        try:
            await answer(request, reader, writer)
        except BadRequest as error:
            whole_json(writer, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}}, 400)

    def _note(self, request: Request) -> None:
        if self.sink:
            with open(self.sink, "a", encoding="utf-8") as journal:
                journal.write(json.dumps({"path": request.path, "length": len(request.body)}) + "\n")

    async def _ping(self, request: Request, reader: Reader, writer: Writer) -> None:
        whole(writer, b"", "text/plain")

    async def _metrics(self, request: Request, reader: Reader, writer: Writer) -> None:
        text = page(self.batch.engine, self.batch.meters, self.style, self.settings.model)
        whole(writer, text.encode(), "text/plain; version=0.0.4")

    async def _models(self, request: Request, reader: Reader, writer: Writer) -> None:
        whole_json(writer, {"object": "list", "data": [{"id": self.settings.model, "object": "model"}]})

    async def _complete(self, request: Request, reader: Reader, writer: Writer) -> None:
        wish = wish_of(request.path, request.body, self.settings, self.batch.engine.speed)
        hang_up = asyncio.ensure_future(_gone(reader))
        try:
            with self.batch.request(wish.work) as tokens:
                if wish.is_stream:
                    await self._stream(wish, tokens, writer, hang_up)
                else:
                    await _until_gone(_all(tokens), hang_up)
                    whole_json(writer, answer_of(wish, self.settings))
        except ValueError as error:
            raise BadRequest(str(error)) from error
        finally:
            hang_up.cancel()
            await asyncio.gather(hang_up, return_exceptions=True)

    async def _stream(
        self, wish: Wish, tokens: "asyncio.Queue[bool]", writer: Writer, hang_up: "asyncio.Future[None]"
    ) -> None:
        """One event for each token as it comes, then how it ended."""
        events = events_of(wish, self.settings)
        writer.write(head(200, "text/event-stream", None) + chunk(next(events)))
        is_last = False
        while not is_last:
            is_last = await _until_gone(tokens.get(), hang_up)
            writer.write(chunk(next(events)))
            await writer.drain()
        writer.write(b"".join(map(chunk, events)) + b"0\r\n\r\n")


async def _all(tokens: "asyncio.Queue[bool]") -> None:
    while not await tokens.get():
        pass


async def _gone(reader: Reader) -> None:
    """Returns when the client hangs up. One that sends its next request before the answer is taken for gone too."""
    await reader.read(1)


async def _until_gone(work: Awaitable[T], hang_up: "asyncio.Future[None]") -> T:
    """The result of `work`; raises ConnectionError when the client hangs up first."""
    waiting = asyncio.ensure_future(work)
    await asyncio.wait((waiting, hang_up), return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        raise ConnectionError("the client is gone")
    return waiting.result()


def speed_of(env: "os._Environ[str]") -> Speed:
    """What the environment says of the accelerator."""

    def number(name: str, default: float) -> float:
        return float(env.get(name) or default)

    default = Speed()
    return Speed(
        prefill_tokens_per_second=number("ENGINE_PREFILL_RATE", default.prefill_tokens_per_second),
        step_seconds=number("ENGINE_STEP_MS", default.step_seconds * 1000) / 1000,
        decode_seconds=number("ENGINE_DECODE_MS", default.decode_seconds * 1000) / 1000,
        step_tokens=int(number("ENGINE_STEP_TOKENS", default.step_tokens)),
        seats=int(number("ENGINE_SEATS", default.seats)),
        block_tokens=int(number("ENGINE_BLOCK_TOKENS", default.block_tokens)),
        blocks=int(number("ENGINE_CACHE_BLOCKS", default.blocks)),
    )


async def main() -> None:
    """Listen until killed."""
    env = os.environ
    style = env.get("ENGINE_METRICS") or STYLES[0]
    if style not in STYLES:
        raise SystemExit(f"ENGINE_METRICS must be one of {', '.join(STYLES)}, not {style!r}")
    settings = Settings(
        env.get("ENGINE_MODEL") or "headrace-engine",
        int(env.get("ENGINE_OUTPUT_TOKENS") or 128),
        int(env.get("ENGINE_SEED") or 0),
    )
    batch = Batch(speed_of(env), float(env.get("ENGINE_TIME_SCALE") or 1))
    host, port = env.get("ENGINE_BIND", "127.0.0.1"), int(env.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    answers = Server(batch, settings, style, env.get("ENGINE_SINK", ""))
    server = await asyncio.start_server(answers.serve, host, port, backlog=1024)
    async with server:
        await asyncio.gather(server.serve_forever(), batch.run())


if __name__ == "__main__":
    # At once: no connection that is open or streaming holds the end up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(main())
