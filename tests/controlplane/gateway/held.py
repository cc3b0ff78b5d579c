"""An instance that answers only when the test lets it, so that what is under way stays so however slow the machine is."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

from controlplane.routing.table import Target
from tests.controlplane.gateway.site import PATIENCE_SECONDS

MANY = 1000
"""More steps than anybody waits for."""


class Held(ThreadingHTTPServer):
    """Answers each call with these pieces: `free` of them at once, each other one for a step that the test allows.

    An answer whose next step is not allowed in time breaks off, and so do all at the end. `received` counts calls.
    """

    daemon_threads = True

    def __init__(self, pieces: tuple[bytes, ...], free: int, content_type: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pieces, self.free, self.content_type = pieces, free, content_type
        self.received = 0
        self.is_over = False
        self.counting = threading.Lock()
        self.steps = threading.Semaphore(0)
        self.target = Target(str(uuid4()), f"127.0.0.1:{self.server_port}", "ml.m5.large", False)

    def end(self) -> None:
        """Answer nobody any more, not even on connections that are open."""
        self.is_over = True
        self.steps.release(MANY)

    def allow(self, steps: int = 1) -> None:
        """Let it send so many pieces more, of whichever answers."""
        self.steps.release(steps)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Held

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.counting:
            self.server.received += 1
        with suppress(OSError):
            self._answer()

    def _answer(self) -> None:
        for number, piece in enumerate(self.server.pieces):
            if not self._may_send(number):
                self.close_connection = True
                return
            if number == 0:
                self._begin()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _may_send(self, number: int) -> bool:
        is_allowed = number < self.server.free or self.server.steps.acquire(timeout=PATIENCE_SECONDS)
        return is_allowed and not self.server.is_over

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", self.server.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden name
        """Say nothing."""


@contextmanager
def held(*pieces: bytes, free: int = 0, content_type: str = "text/plain") -> Iterator[Held]:
    """Such an instance, running."""
    server = Held(pieces, free, content_type)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.end()
        server.shutdown()
        server.server_close()
