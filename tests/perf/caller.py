"""A load client that times every call, in a process of its own: `python -m tests.perf.caller`.

Each connection sends a request, waits until its answer is whole and sends the next one; nothing is pipelined. The requests
were made (and signed) before, and only as much of an answer is read as tells where it ends, so that the client costs
little and the same for every peer.

    stdin    for each round a JSON line: {"port": ..., "messages": "a file of `pump.packed` requests", "connections": ...,
             "seconds": ...}
    stdout   for each round a JSON line: {"done", "seconds", "cpu": seconds of this process, "p50", "p99": milliseconds to
             the end of an answer, "first_p50", "first_p99": milliseconds to the first byte of its body}
             or {"failed": "what a peer answered"}
"""

import asyncio
import itertools
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from controlplane.core import clock

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_CHUNKED = b"transfer-encoding: chunked"
_LAST_CHUNK = b"0\r\n\r\n"


class Failed(Exception):
    """A peer answered with something else than 200, or hung up."""


class Answer:
    """One answer as it arrives."""

    def __init__(self) -> None:
        self._held = b""
        self._body_at = -1
        self._ends_at = -1
        self.has_body = False

    def take(self, data: bytes) -> bool:
        """Whether the answer is whole now."""
        self._held += data
        if self._body_at < 0 and not self._take_head():
            return False
        self.has_body = len(self._held) > self._body_at
        if self._ends_at >= 0:
            return len(self._held) >= self._ends_at
        return self._held.endswith(_LAST_CHUNK)

    def _take_head(self) -> bool:
        end = self._held.find(_HEAD_END)
        if end < 0:
            return False
        if not self._held.startswith(b"HTTP/1.1 200"):
            raise Failed(self._held[:600].decode("latin-1"))
        self._body_at = end + len(_HEAD_END)
        head = self._held[: self._body_at].lower()
        if (at := head.find(_LENGTH)) >= 0:
            self._ends_at = self._body_at + int(head[at + len(_LENGTH) : head.index(b"\r", at)])
        elif _CHUNKED not in head:
            raise Failed("an answer without a length")
        return True


class _Connection(asyncio.Protocol):
    """Calls until the deadline; `firsts` and `wholes` get the seconds of each call."""

    def __init__(self, messages: Iterator[bytes], deadline: float, firsts: list[float], wholes: list[float]) -> None:
        self._messages = messages
        self._deadline = deadline
        self._firsts = firsts
        self._wholes = wholes
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
        self._asked = clock.monotonic()
        if self._asked >= self._deadline:
            self.over.set_result(None)
            return
        self._answer = Answer()
        self._is_first_timed = False
        self._transport.write(next(self._messages))

    def data_received(self, data: bytes) -> None:
        now = clock.monotonic()
        try:
            is_whole = self._answer.take(data)
        except Failed as error:
            self._fail(error)
            return
        if self._answer.has_body and not self._is_first_timed:
            self._is_first_timed = True
            self._firsts.append(now - self._asked)
        if is_whole:
            self._wholes.append(now - self._asked)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or Failed("the peer hung up"))

    def _fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)

    def close(self) -> None:
        self._transport.close()


def unpacked(data: bytes) -> Iterator[bytes]:
    """The requests in a file of them."""
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the sorted values lies."""
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


async def call(port: int, messages: list[bytes], connections: int, seconds: float) -> dict[str, Any]:
    """One round."""
    loop = asyncio.get_running_loop()
    firsts: list[float] = []
    wholes: list[float] = []
    sockets = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(connections)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    endless = itertools.cycle(messages)
    started, cpu = clock.monotonic(), sum(os.times()[:2])
    made = [
        (await loop.create_connection(lambda: _Connection(endless, started + seconds, firsts, wholes), sock=each))[1]
        for each in sockets
    ]
    try:
        await asyncio.gather(*(each.over for each in made))
    finally:
        for each in made:
            each.close()
    took, spent = clock.monotonic() - started, sum(os.times()[:2]) - cpu
    firsts.sort()
    wholes.sort()
    return {
        "done": len(wholes),
        "seconds": took,
        "cpu": spent,
        "p50": percentile(wholes, 0.5) * 1000,
        "p99": percentile(wholes, 0.99) * 1000,
        "first_p50": percentile(firsts, 0.5) * 1000,
        "first_p99": percentile(firsts, 0.99) * 1000,
    }


def main() -> None:
    """Serve rounds until stdin ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        messages = list(unpacked(Path(asked["messages"]).read_bytes()))
        try:
            found = uvloop.run(call(asked["port"], messages, asked["connections"], asked["seconds"]))
        except (Failed, OSError) as error:
            found = {"failed": str(error) or type(error).__name__}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
