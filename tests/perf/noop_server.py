"""A server that does nothing, as cheaply as Python can: `python -m tests.perf.noop_server PORT`.

It answers every request with 200 and no body. As a model it leaves what carries the calls to be measured; as an
object store it takes everything and keeps nothing, which shows what a store costs by leaving it out.
"""

import asyncio
import sys

import httptools
import uvloop

_ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\netag: "0"\r\ncontent-length: 0\r\n\r\n'
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class NoOp(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        del value
        if name.lower() == b"expect":
            self._transport.write(_CONTINUE)

    def on_message_complete(self) -> None:
        self._transport.write(_ANSWER)


async def serve(port: int) -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(NoOp, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
