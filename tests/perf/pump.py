"""A load client that costs little, in a process of its own: `python -m tests.perf.pump`.

Each connection sends a message, waits until its answer is whole and sends the next one; nothing is pipelined. Two kinds of
peers: the gateway, by HTTP/1.1 on kept connections, and PostgreSQL, by its own protocol. Both pay the same for the client,
so their ratio tells of the servers.

    stdin    one JSON line of setting up: {"kind": "http", "port": ..., "messages": "a file of length-prefixed requests"}
                                       or {"kind": "postgres", "url": ..., "statement": ..., "body": "text"}
             then for each round: CONNECTIONS SECONDS
    stdout   a JSON line for each round: {"done": count, "seconds": ..., "cpu": seconds of this process}
"""

import asyncio
import itertools
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import uvloop

from controlplane.core import clock

HTTP_ACCEPTED = b"HTTP/1.1 202"
_LENGTH = b"content-length: "


class Failed(Exception):
    """A peer answered with something else than the success that is counted."""


class _Connection(asyncio.Protocol):
    """Sends what `next_message` gives for as long as there is something, each after the answer to the one before."""

    def __init__(self, next_message: Callable[[], bytes | None], answered: Callable[[bytes], bool]) -> None:
        self._next = next_message
        self._answered = answered
        self._held = b""
        self.over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def start(self) -> None:
        self._send()

    def _send(self) -> None:
        message = self._next()
        if message is None:
            self.over.set_result(self._count)
        else:
            self._transport.write(message)

    def data_received(self, data: bytes) -> None:
        self._held = self._held + data if self._held else data
        try:
            is_whole = self._answered(self._held)
        except Failed as error:
            self.over.set_exception(error)
            return
        if is_whole:
            self._held = b""
            self._count += 1
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(exc or Failed("the peer hung up"))

    def close(self) -> None:
        self._transport.close()


def http_answered(held: bytes) -> bool:
    """Whether a whole answer has come; raises Failed for any other than 202."""
    end = held.find(b"\r\n\r\n")
    if end < 0:
        return False
    if not held.startswith(HTTP_ACCEPTED):
        raise Failed(held[:300].decode("latin-1"))
    at = held.lower().index(_LENGTH) + len(_LENGTH)
    return len(held) >= end + 4 + int(held[at : held.index(b"\r", at)])


def postgres_answered(held: bytes) -> bool:
    """Whether PostgreSQL is ready for the next query (its last message is Z); raises Failed for an error."""
    if held.startswith(b"E"):
        raise Failed(held.decode("utf-8", "replace"))
    return len(held) >= 6 and held[-6:-1] == b"Z\0\0\0\5"


class HttpPeer:
    """The gateway; the messages were signed before, so that signing costs the client nothing."""

    answered = staticmethod(http_answered)

    def __init__(self, port: int, messages: str) -> None:
        self._port = port
        self._messages = itertools.cycle(list(_unpacked(Path(messages).read_bytes())))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))

    def message(self) -> bytes:
        return next(self._messages)

    def disconnect(self) -> None:
        """Nothing is left of a connection once its socket is closed."""


class PostgresPeer:
    """PostgreSQL: one statement with a fresh uuid and a body, each its own transaction. psycopg logs in and prepares."""

    answered = staticmethod(postgres_answered)

    def __init__(self, url: str, statement: str, body: str) -> None:
        self._url = url
        self._statement = statement
        self._logged_in: list[psycopg.Connection[Any]] = []
        bind = b"\0run\0" + struct.pack(">hhhi", 1, 1, 2, 16)
        body_part = struct.pack(">i", len(body)) + body.encode() + struct.pack(">h", 0)
        self._head = b"B" + struct.pack(">i", 4 + len(bind) + 16 + len(body_part)) + bind
        self._tail = body_part + b"E" + struct.pack(">i", 9) + b"\0" + struct.pack(">i", 0) + b"S" + struct.pack(">i", 4)

    def connect(self) -> socket.socket:
        connection = psycopg.connect(self._url, autocommit=True)
        connection.pgconn.prepare(b"run", self._statement.encode())
        self._logged_in.append(connection)  # its end would say goodbye to the server
        return socket.socket(fileno=os.dup(connection.pgconn.socket))

    def disconnect(self) -> None:
        while self._logged_in:
            self._logged_in.pop().close()

    def message(self) -> bytes:
        return self._head + uuid4().bytes + self._tail


def _unpacked(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def packed(messages: list[bytes]) -> bytes:
    """The content of a file of messages."""
    return b"".join(struct.pack(">i", len(message)) + message for message in messages)


async def _round(peer: HttpPeer | PostgresPeer, connections: int, seconds: float) -> dict[str, float]:
    deadline = float("inf")

    def next_message() -> bytes | None:
        return peer.message() if clock.monotonic() < deadline else None

    loop = asyncio.get_running_loop()
    sockets = [peer.connect() for _ in range(connections)]
    made = [
        (await loop.create_connection(lambda: _Connection(next_message, peer.answered), sock=each))[1] for each in sockets
    ]
    started, cpu = clock.monotonic(), sum(os.times()[:2])
    deadline = started + seconds
    for each in made:
        each.start()
    counts = await asyncio.gather(*(each.over for each in made))
    took = clock.monotonic() - started
    for each in made:
        each.close()
    peer.disconnect()
    return {"done": sum(counts), "seconds": took, "cpu": sum(os.times()[:2]) - cpu}


def _peer(spec: dict[str, Any]) -> HttpPeer | PostgresPeer:
    kind = spec.pop("kind")
    return HttpPeer(**spec) if kind == "http" else PostgresPeer(**spec)


def main() -> None:
    """Serve rounds until stdin ends."""
    peer = _peer(json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    for line in sys.stdin:
        connections, seconds = line.split()
        print(json.dumps(uvloop.run(_round(peer, int(connections), float(seconds)))), flush=True)


if __name__ == "__main__":
    main()
