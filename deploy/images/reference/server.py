"""The reference container: a small model server that honours the container contract, with faults on demand.

    GET  /ping                    200 when healthy
    POST /invocations             answers with what it was sent, unless told otherwise
    POST /v1/chat/completions     an OpenAI-style answer that repeats the last message, streamed when asked for
    POST /v1/completions          the same for the prompt
    GET  /v1/models               one model, `reference`

It listens on SAGEMAKER_BIND_TO_PORT (8080) and needs only the standard library, so it starts in a blink and runs the
same in an image and as a plain process. SIGTERM ends it at once. What it is told:

    environment    CHAOS_NAME=text            sent back in the header X-Chaos-Name
                   CHAOS_START=exit:N|slow:S  leave at once with code N, or wait S seconds before listening
                   CHAOS_START=shout:N        leave with code N after 60 KB of control characters, markup and no UTF-8
                   CHAOS_PING=200|404|500|302|hang|close|503-for:S|200-after:S
                   CHAOS_SINK=path            a journal: a JSON line when a request was read and one when it ended
                   CHAOS_BIND=address         the interface to listen on (127.0.0.1)
    each request   mode=... in X-Amzn-SageMaker-Custom-Attributes, in a first body line `#mode=...`, or as the JSON
                   member "chaos":
                   echo · sha · headers       the body, its length and digest, the headers that arrived
                   name                       CHAOS_NAME: which container answers
                   delay:S · hang:S           echo after S seconds
                   drip                       100 bytes, one a second
                   pace:N:S                   N chunks, S seconds apart
                   events:N:S · events-cut:N  a comment, N server-sent events, each in two halves S seconds apart; no end
                   http:N[:html|empty|nonutf8|nul|10MB] · redirect:URL
                   big:N · chunked · hdr:N    N bytes of body, the body in chunks, N bytes in one header
                   cut-after:K · lie          K chunks and no end, a Content-Length that is too large
                   session:S                  opens a session of S seconds, counts its calls, closes it at the body CLOSE
                   crash · garbage            exit 1 without an answer, an answer that is not HTTP
                   ping:WORD                  from now on /ping answers as CHAOS_PING=WORD would
                   from-now:MODE              from now on every call is answered in MODE; empty: as it asks for

The journal's lines hold `at`, `event` (`received`, then `ok`, `cut` or `client-abort`; a `received` that nothing
follows was killed), `path`, `name`, `length`, `sha256`, `inference_id` and `headers`.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

HEADER_LIMIT_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
MODE_LIMIT_BYTES = 4096
BYTES = "application/octet-stream"

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


health = SimpleNamespace(word=os.environ.get("CHAOS_PING", "200"), since=time.monotonic())
"""What /ping answers, and since when."""


habit = SimpleNamespace(mode="")
"""The mode in which calls are answered whatever they ask for, if there is one."""


@dataclass(frozen=True)
class Request:
    """One request, read whole."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", BYTES)

    def mode(self) -> tuple[str, str]:
        """What the request asks for: a word and its argument."""
        text = self._mode_of_attributes() or self._mode_of_line() or self._mode_of_member() or "echo"
        word, _, argument = text.strip().partition(":")
        return word, argument

    def _mode_of_attributes(self) -> str:
        _, _, text = self.headers.get("x-amzn-sagemaker-custom-attributes", "").partition("mode=")
        return text.partition(";")[0]

    def _mode_of_line(self) -> str:
        line = self.body[:MODE_LIMIT_BYTES].partition(b"\n")[0]
        return line.removeprefix(b"#mode=").decode("latin-1") if line.startswith(b"#mode=") else ""

    def _mode_of_member(self) -> str:
        if b'"chaos"' in self.body:
            with contextlib.suppress(ValueError, AttributeError):
                return str(json.loads(self.body).get("chaos", ""))
        return ""


class BadRequest(Exception):
    """The request cannot be answered as it is; the text says why."""


async def read_request(reader: Reader, writer: Writer) -> Request | None:
    """The next request of a connection, None when the peer is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target.partition("?")[0], headers, body)


async def read_chunks(reader: Reader) -> bytes:
    """A chunked body, its trailers dropped."""
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        continue
    return b"".join(parts)


def head(status: int, content_type: str, length: int | None, extra: Iterable[str] = ()) -> bytes:
    """A response head; without a length the body is chunked."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", framing, *extra]
    if name := os.environ.get("CHAOS_NAME"):
        lines.append(f"X-Chaos-Name: {name}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(writer: Writer, body: bytes, content_type: str = BYTES, *, status: int = 200, extra: Iterable[str] = ()) -> bool:
    """An answer in one piece; the connection is kept."""
    writer.write(head(status, content_type, len(body), extra) + body)
    return True


def whole_json(writer: Writer, answer: object, status: int = 200, extra: Iterable[str] = ()) -> bool:
    """An answer in one piece, as JSON."""
    return whole(writer, json.dumps(answer).encode(), "application/json", status=status, extra=extra)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def ping(writer: Writer) -> bool:
    """/ping as CHAOS_PING says; False when the connection is to be closed."""
    word, _, argument = health.word.partition(":")
    age = time.monotonic() - health.since
    if word == "hang":
        await asyncio.sleep(3600)
    if word == "close":
        return False
    if word == "503-for":
        word = "503" if age < float(argument) else "200"
    if word == "200-after":
        word = "200" if age >= float(argument) else "503"
    extra = ("Location: http://127.0.0.1:1/",) if word == "302" else ()
    return whole(writer, b"", "text/plain", status=int(word), extra=extra)


# Each mode answers one request; False when the connection is to be closed.


async def echo(request: Request, writer: Writer, argument: str) -> bool:
    return whole(writer, request.body, request.content_type)


async def echo_later(request: Request, writer: Writer, argument: str) -> bool:
    await asyncio.sleep(float(argument))
    return await echo(request, writer, "")


async def sha(request: Request, writer: Writer, argument: str) -> bool:
    return whole_json(writer, {"length": len(request.body), "sha256": hashlib.sha256(request.body).hexdigest()})


async def seen_headers(request: Request, writer: Writer, argument: str) -> bool:
    return whole_json(writer, request.headers)


async def name_of_container(request: Request, writer: Writer, argument: str) -> bool:
    return whole(writer, os.environ.get("CHAOS_NAME", "").encode(), "text/plain")


async def drip(request: Request, writer: Writer, argument: str) -> bool:
    writer.write(head(200, "text/plain", 100))
    for _ in range(100):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(1)
    return True


async def pace(request: Request, writer: Writer, argument: str) -> bool:
    count, _, seconds = argument.partition(":")
    writer.write(head(200, "text/plain", None))
    for number in range(int(count)):
        writer.write(chunk(b"chunk %d\n" % number))
        await writer.drain()
        await asyncio.sleep(float(seconds))
    writer.write(b"0\r\n\r\n")
    return True


async def events(request: Request, writer: Writer, argument: str) -> bool:
    count, _, seconds = argument.partition(":")
    writer.write(head(200, "text/event-stream; charset=utf-8", None) + chunk(b": waiting\r\n\r\n"))
    for number in range(int(count)):
        writer.write(chunk(b'id: %d\ndata: {"number"' % number))
        await writer.drain()
        await asyncio.sleep(float(seconds or 0))
        writer.write(chunk(b": %d}\n\n" % number))
        await writer.drain()
    writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    return True


async def events_cut(request: Request, writer: Writer, argument: str) -> bool:
    writer.write(head(200, "text/event-stream", None))
    for number in range(int(argument)):
        writer.write(chunk(b'data: {"number": %d}\n\n' % number))
        await writer.drain()
    return False


async def http_status(request: Request, writer: Writer, argument: str) -> bool:
    number, _, kind = argument.partition(":")
    bodies = {
        "": b"the model says no",
        "html": b"<html><body>no</body></html>",
        "empty": b"",
        "nonutf8": bytes(range(256)),
        "nul": b"no\x00no",
        "10MB": b"x" * 10_000_000,
    }
    return whole(writer, bodies[kind], "text/html" if kind == "html" else "text/plain", status=int(number))


async def redirect(request: Request, writer: Writer, argument: str) -> bool:
    return whole(writer, b"", "text/plain", status=302, extra=(f"Location: {argument}",))


async def big(request: Request, writer: Writer, argument: str) -> bool:
    left = int(argument)
    writer.write(head(200, BYTES, left))
    while left > 0:
        writer.write(b"x" * min(CHUNK_BYTES, left))
        await writer.drain()
        left -= CHUNK_BYTES
    return True


async def chunked(request: Request, writer: Writer, argument: str) -> bool:
    writer.write(head(200, request.content_type, None))
    for start in range(0, len(request.body), 1000):
        writer.write(chunk(request.body[start : start + 1000]))
    writer.write(b"0\r\n\r\n")
    return True


async def large_header(request: Request, writer: Writer, argument: str) -> bool:
    return whole(writer, request.body, request.content_type, extra=(f"X-Filler: {'h' * int(argument)}",))


async def cut_after(request: Request, writer: Writer, argument: str) -> bool:
    writer.write(head(200, "text/plain", None))
    for number in range(int(argument)):
        writer.write(chunk(b"chunk %d\n" % number))
        await writer.drain()
    return False


async def lie(request: Request, writer: Writer, argument: str) -> bool:
    writer.write(head(200, "text/plain", 1000) + b"far less")
    return False


sessions: dict[str, int] = {}
"""The calls of each open session."""


async def session(request: Request, writer: Writer, argument: str) -> bool:
    name = request.headers.get("x-amzn-sagemaker-session-id", "")
    if name == "NEW_SESSION":
        name = uuid.uuid4().hex
        sessions[name] = 0
        end = time.gmtime(time.time() + float(argument))  # noqa: TID251
        header = f"X-Amzn-SageMaker-New-Session-Id: {name}; Expires={time.strftime('%Y-%m-%dT%H:%M:%SZ', end)}"
    elif name not in sessions:
        raise BadRequest(f"there is no session {name!r}")
    elif request.body == b"CLOSE":
        del sessions[name]
        return whole(writer, b"", "text/plain", extra=(f"X-Amzn-SageMaker-Closed-Session-Id: {name}",))
    else:
        header = "X-Session: kept"
    sessions[name] += 1
    return whole_json(writer, {"calls": sessions[name]}, extra=(header,))


async def crash(request: Request, writer: Writer, argument: str) -> bool:
    os._exit(1)


async def garbage(request: Request, writer: Writer, argument: str) -> bool:
    writer.write(b"\x00\x01 this is not HTTP\r\n\r\n")
    return False


async def change_habit(request: Request, writer: Writer, argument: str) -> bool:
    habit.mode = argument
    return whole(writer, b"", "text/plain")


async def change_ping(request: Request, writer: Writer, argument: str) -> bool:
    health.word, health.since = argument, time.monotonic()
    return whole(writer, b"", "text/plain")


MODES: dict[str, Callable[[Request, Writer, str], Awaitable[bool]]] = {
    "echo": echo,
    "delay": echo_later,
    "hang": echo_later,
    "sha": sha,
    "headers": seen_headers,
    "name": name_of_container,
    "drip": drip,
    "pace": pace,
    "events": events,
    "events-cut": events_cut,
    "http": http_status,
    "redirect": redirect,
    "big": big,
    "chunked": chunked,
    "hdr": large_header,
    "cut-after": cut_after,
    "lie": lie,
    "session": session,
    "crash": crash,
    "garbage": garbage,
    "ping": change_ping,
    "from-now": change_habit,
}


async def invoke(request: Request, writer: Writer) -> bool:
    """/invocations as the request's mode says."""
    word, argument = request.mode()
    if habit.mode and word != "from-now":
        word, _, argument = habit.mode.partition(":")
    if word not in MODES:
        raise BadRequest(f"there is no mode {word!r}")
    try:
        return await MODES[word](request, writer, argument)
    except (KeyError, ValueError) as error:
        raise BadRequest(f"mode {word} cannot be asked with {argument!r}") from error


async def chat(request: Request, writer: Writer) -> bool:
    """An OpenAI-style answer that repeats the last message, in one piece or as server-sent events."""
    try:
        asked = json.loads(request.body)
        text = text_of(asked["messages"][-1]["content"])
    except (ValueError, LookupError, TypeError) as error:
        raise BadRequest("a JSON object with messages is wanted") from error
    if request.mode()[0] != "echo":
        return await invoke(request, writer)
    frame = {"id": "chatcmpl-reference", "created": int(time.time()), "model": asked.get("model", "")}  # noqa: TID251
    count = len(text.split())
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 2 * count}
    if asked.get("stream"):
        wants_usage = bool((asked.get("stream_options") or {}).get("include_usage"))
        return await stream_chat(writer, text, frame, usage if wants_usage else None)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return whole_json(writer, {**frame, "object": "chat.completion", "choices": [choice], "usage": usage})


def text_of(content: Any) -> str:
    """A message's text, which comes as a string or as a list of typed parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return str(content)


async def complete(request: Request, writer: Writer) -> bool:
    """An OpenAI-style completion that repeats the prompt."""
    try:
        asked = json.loads(request.body)
        text = str(asked["prompt"])
    except (ValueError, LookupError, TypeError) as error:
        raise BadRequest("a JSON object with a prompt is wanted") from error
    frame = {"id": "cmpl-reference", "created": int(time.time()), "model": asked.get("model", "")}  # noqa: TID251
    choice = {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}
    return whole_json(writer, {**frame, "object": "text_completion", "choices": [choice]})


async def models(request: Request, writer: Writer) -> bool:
    """The one model there is."""
    model = {"id": "reference", "object": "model", "created": 0, "owned_by": "headrace"}
    return whole_json(writer, {"object": "list", "data": [model]})


async def stream_chat(writer: Writer, text: str, frame: dict[str, Any], usage: dict[str, int] | None) -> bool:
    """One event for each word, one for the end, one for the usage if that is wanted, and [DONE]."""
    writer.write(head(200, "text/event-stream", None))
    words = text.split(" ")
    pieces = [word + " " for word in words[:-1]] + words[-1:]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces), {}]
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        await send_event(writer, {**frame, "object": "chat.completion.chunk", "choices": [choice]})
    if usage is not None:
        await send_event(writer, {**frame, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    return True


async def send_event(writer: Writer, event: dict[str, Any]) -> None:
    """One server-sent event, sent as soon as it is there."""
    writer.write(chunk(b"data: %s\n\n" % json.dumps(event).encode()))
    await writer.drain()


def journal(request: Request, event: str) -> None:
    """Append one line to the journal, if there is one."""
    path = os.environ.get("CHAOS_SINK")
    if not path:
        return
    line = {
        "at": time.time(),  # noqa: TID251 - this file runs without the project around it
        "event": event,
        "path": request.path,
        "name": os.environ.get("CHAOS_NAME", ""),
        "length": len(request.body),
        "sha256": hashlib.sha256(request.body).hexdigest(),
        "inference_id": request.headers.get("x-amzn-sagemaker-inference-id", ""),
        "headers": request.headers,
    }
    with open(path, "a", encoding="utf-8") as sink:
        sink.write(json.dumps(line) + "\n")


ROUTES = {
    ("POST", "/invocations"): invoke,
    ("POST", "/v1/chat/completions"): chat,
    ("POST", "/v1/completions"): complete,
    ("GET", "/v1/models"): models,
}


async def answer(request: Request, reader: Reader, writer: Writer) -> bool:
    """Answer one request; False when the connection is to be closed."""
    if request.path == "/ping":
        return await ping(writer)
    route = ROUTES.get((request.method, request.path))
    if route is None:
        return whole(writer, b"no such path", "text/plain", status=404)
    journal(request, "received")
    event = "client-abort"
    try:
        is_kept = await route(request, writer)
        await writer.drain()
        if not reader.at_eof():
            event = "ok" if is_kept else "cut"
    except BadRequest as error:
        event = "ok"
        is_kept = whole_json(writer, {"error": str(error)}, status=400)
    finally:
        journal(request, event)
    return is_kept


async def serve(reader: Reader, writer: Writer) -> None:
    """One connection, kept alive; a request that is no HTTP closes it."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
        while (request := await read_request(reader, writer)) is not None:
            is_kept = await answer(request, reader, writer)
            await writer.drain()
            if not is_kept or request.headers.get("connection", "").lower() == "close":
                break
    writer.close()


async def main() -> None:
    """Listen until killed."""
    word, _, argument = os.environ.get("CHAOS_START", "").partition(":")
    if word == "exit":
        print(f"reference container: told to leave with code {argument}", flush=True)
        raise SystemExit(int(argument))
    if word == "shout":
        os.write(2, b"\x00\x1b[31m<script>\xff\xfe\r\n" * 3500)
        raise SystemExit(int(argument))
    if word == "slow":
        await asyncio.sleep(float(argument))
    host, port = os.environ.get("CHAOS_BIND", "127.0.0.1"), int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    server = await asyncio.start_server(serve, host, port, limit=HEADER_LIMIT_BYTES, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    # At once: no connection that is open, hanging or streaming holds the end up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(main())
