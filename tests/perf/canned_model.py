"""A container that answers at once with the same words, as cheaply as Python can: `python -m tests.perf.canned_model PORT`.

POST, "stream": true    server-sent events: EVENTS of them, PACE_SECONDS apart, the first one at once
POST                    an OpenAI-style answer of about 1 KB
GET                     200 and a list of one model, which also passes for every health check
"""

import asyncio
import json
import sys

import httptools
import uvloop

EVENTS = 6
PACE_SECONDS = 0.01

_MODEL = "bench"
_FRAME = {"id": "chatcmpl-bench", "created": 1_800_000_000, "model": _MODEL}


def _head(content_type: str, framing: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()


def _whole(document: object) -> bytes:
    body = json.dumps(document).encode()
    return _head("application/json", f"content-length: {len(body)}") + body


def _completion() -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": "water " * 130}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 60, "completion_tokens": 130, "total_tokens": 190}
    return _whole({**_FRAME, "object": "chat.completion", "choices": [choice], "usage": usage})


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event() -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": "water "}, "finish_reason": None}
    event = {**_FRAME, "object": "chat.completion.chunk", "choices": [choice]}
    return _chunk(b"data: %s\n\n" % json.dumps(event).encode())


COMPLETION = _completion()
MODELS = _whole({"object": "list", "data": [{"id": _MODEL, "object": "model", "created": 0, "owned_by": "bench"}]})
STREAM_HEAD = _head("text/event-stream", "transfer-encoding: chunked")
EVENT = _event()
LAST = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


class CannedModel(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if self._parser.get_method() != b"POST":
            self._transport.write(MODELS)
        elif b'"stream":true' in body.replace(b" ", b""):
            self._transport.write(STREAM_HEAD + EVENT)
            self._loop.call_later(PACE_SECONDS, self._go_on, EVENTS - 1)
        else:
            self._transport.write(COMPLETION)

    def _go_on(self, left: int) -> None:
        """The next event, or the end; a peer that has hung up hears nothing more."""
        if self._transport.is_closing():
            return
        if left == 0:
            self._transport.write(LAST)
            return
        self._transport.write(EVENT)
        self._loop.call_later(PACE_SECONDS, self._go_on, left - 1)


async def serve(port: int) -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(CannedModel, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
