"""The reference container: a small model server that honours the container contract, with faults on demand.

    GET  /ping                    200 when healthy
    POST /invocations             answers with what it was sent, unless told otherwise
    POST /v1/chat/completions     an OpenAI-style answer, streamed when asked for

It listens on SAGEMAKER_BIND_TO_PORT (8080) and needs only the standard library, so it starts in a blink and runs the
same in an image and as a plain process. What it is told:

    environment    CHAOS_NAME=text            sent back in the header X-Chaos-Name
                   CHAOS_START=exit:N|slow:S  leave at once with code N, or wait S seconds before listening
                   CHAOS_PING=200|404|500|302|hang|close|503-for:S|200-after:S
                   CHAOS_SINK=path            a journal: one JSON line for each request
                   CHAOS_BIND=address         the interface to listen on (127.0.0.1)
    each request   mode=... in X-Amzn-SageMaker-Custom-Attributes, in a first body line `#mode=...`, or as the JSON
                   member "chaos": echo, sha, headers, delay:S, hang:S, drip, http:N, redirect:URL, big:N, chunked,
                   hdr:N, cut-after:K, crash, lie, garbage
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import time

HEADER_LIMIT = 64 * 1024
CHUNK = 64 * 1024
STARTED = time.monotonic()


class Request:
    """One request, read whole."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body

    def mode(self):
        """What the request asks for: a word and its argument."""
        attributes = self.headers.get("x-amzn-sagemaker-custom-attributes", "")
        text = attributes.partition("mode=")[2] if "mode=" in attributes else ""
        if not text and self.body.startswith(b"#mode="):
            text = self.body.partition(b"\n")[0].removeprefix(b"#mode=").decode("latin-1")
        if not text and b'"chaos"' in self.body:
            with contextlib.suppress(ValueError, AttributeError):
                text = json.loads(self.body).get("chaos", "")
        word, _, argument = (text or "echo").strip().partition(":")
        return word, argument


async def read_request(reader):
    """The next request of a connection, None when the peer is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


async def read_chunks(reader):
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(parts)


def head(status, content_type, length, extra=()):
    """A response head; without a length the body is chunked."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", framing, *extra]
    if name := os.environ.get("CHAOS_NAME"):
        lines.append(f"X-Chaos-Name: {name}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(writer, status, body, content_type="application/octet-stream", extra=()):
    writer.write(head(status, content_type, len(body), extra) + body)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


async def ping(writer):
    """/ping as CHAOS_PING says; False when the connection is to be closed."""
    word, _, argument = os.environ.get("CHAOS_PING", "200").partition(":")
    age = time.monotonic() - STARTED
    if word == "hang":
        await asyncio.sleep(3600)
    if word == "close":
        return False
    if word == "503-for":
        word = "503" if age < float(argument) else "200"
    if word == "200-after":
        word = "200" if age >= float(argument) else "503"
    extra = ("Location: http://127.0.0.1:1/",) if word == "302" else ()
    whole(writer, int(word), b"", "text/plain", extra)
    return True


async def invoke(request, writer):
    """/invocations as the request's mode says; False when the connection is to be closed."""
    word, argument = request.mode()
    content_type = request.headers.get("content-type", "application/octet-stream")
    if word in ("delay", "hang"):
        await asyncio.sleep(float(argument))
        word = "echo"
    if word in WHOLE:
        WHOLE[word](request, writer, argument, content_type)
        return True
    return await PARTIAL[word](writer, argument)


def echo(request, writer, argument, content_type):
    whole(writer, 200, request.body, content_type)


def sha(request, writer, argument, content_type):
    digest = {"length": len(request.body), "sha256": hashlib.sha256(request.body).hexdigest()}
    whole(writer, 200, json.dumps(digest).encode(), "application/json")


def seen_headers(request, writer, argument, content_type):
    whole(writer, 200, json.dumps(request.headers).encode(), "application/json")


def status(request, writer, argument, content_type):
    number, _, kind = argument.partition(":")
    bodies = {
        "": b"the model says no",
        "html": b"<html><body>no</body></html>",
        "empty": b"",
        "nonutf8": bytes(range(256)),
        "nul": b"no\x00no",
        "10MB": b"x" * 10_000_000,
    }
    whole(writer, int(number), bodies[kind], "text/html" if kind == "html" else "text/plain")


def redirect(request, writer, argument, content_type):
    whole(writer, 302, b"", "text/plain", (f"Location: {argument}",))


def big(request, writer, argument, content_type):
    writer.write(head(200, "application/octet-stream", int(argument)))
    for start in range(0, int(argument), CHUNK):
        writer.write(b"x" * min(CHUNK, int(argument) - start))


def chunked(request, writer, argument, content_type):
    writer.write(head(200, content_type, None))
    for start in range(0, len(request.body), 1000):
        writer.write(chunk(request.body[start : start + 1000]))
    writer.write(b"0\r\n\r\n")


def large_headers(request, writer, argument, content_type):
    whole(writer, 200, request.body, content_type, (f"X-Filler: {'h' * int(argument)}",))


WHOLE = {
    "echo": echo,
    "sha": sha,
    "headers": seen_headers,
    "http": status,
    "redirect": redirect,
    "big": big,
    "chunked": chunked,
    "hdr": large_headers,
}


async def drip(writer, argument):
    writer.write(head(200, "text/plain", 100))
    for _ in range(100):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(1)
    return True


async def cut_after(writer, argument):
    writer.write(head(200, "text/plain", None))
    for number in range(int(argument)):
        writer.write(chunk(b"chunk %d\n" % number))
        await writer.drain()
    return False


async def crash(writer, argument):
    os._exit(1)


async def lie(writer, argument):
    writer.write(head(200, "text/plain", 1000) + b"far less")
    return False


async def garbage(writer, argument):
    writer.write(b"\x00\x01 this is not HTTP\r\n\r\n")
    return False


PARTIAL = {"drip": drip, "cut-after": cut_after, "crash": crash, "lie": lie, "garbage": garbage}


async def chat(request, writer):
    """An OpenAI-style answer that repeats the last message, in one piece or as server-sent events."""
    asked = json.loads(request.body)
    if "chaos" in asked and asked["chaos"] != "echo":
        return await invoke(request, writer)
    text = str(asked["messages"][-1]["content"])
    frame = {"id": "chatcmpl-reference", "created": 0, "model": asked.get("model", "")}
    if not asked.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        answer = {**frame, "object": "chat.completion", "choices": [choice]}
        whole(writer, 200, json.dumps(answer).encode(), "application/json")
        return True
    writer.write(head(200, "text/event-stream", None))
    for word in text.split(" "):
        delta = {"index": 0, "delta": {"content": word + " "}, "finish_reason": None}
        event = {**frame, "object": "chat.completion.chunk", "choices": [delta]}
        writer.write(chunk(b"data: %s\n\n" % json.dumps(event).encode()))
        await writer.drain()
    writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    return True


def journal(request, outcome):
    """Append one line to the journal, if there is one."""
    if path := os.environ.get("CHAOS_SINK"):
        line = {
            "path": request.path,
            "name": os.environ.get("CHAOS_NAME", ""),
            "length": len(request.body),
            "sha256": hashlib.sha256(request.body).hexdigest(),
            "inference_id": request.headers.get("x-amzn-sagemaker-inference-id", ""),
            "outcome": outcome,
        }
        with open(path, "a", encoding="utf-8") as sink:
            sink.write(json.dumps(line) + "\n")


async def answer(request, writer):
    """Answer one request; False when the connection is to be closed."""
    if request.path == "/ping":
        return await ping(writer)
    routes = {"/invocations": invoke, "/v1/chat/completions": chat}
    if request.method != "POST" or request.path not in routes:
        whole(writer, 404, b"no such path", "text/plain")
        return True
    journal(request, "received")
    return await routes[request.path](request, writer)


async def serve(reader, writer):
    """One connection, kept alive."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
        while (request := await read_request(reader)) is not None:
            keep = await answer(request, writer)
            await writer.drain()
            if not keep or request.headers.get("connection", "").lower() == "close":
                break
    writer.close()


async def main():
    word, _, argument = os.environ.get("CHAOS_START", "").partition(":")
    if word == "exit":
        print(f"reference container: told to leave with code {argument}", flush=True)
        raise SystemExit(int(argument))
    if word == "slow":
        await asyncio.sleep(float(argument))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    host, port = os.environ.get("CHAOS_BIND", "127.0.0.1"), int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    server = await asyncio.start_server(serve, host, port, limit=HEADER_LIMIT)
    async with server:
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
