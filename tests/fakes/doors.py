"""A door before an HTTP server: most requests pass as they are, and those that a test wants refused are."""

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Refusal = tuple[int, bytes]
"""A status and a body."""

Refuse = Callable[[str, str, Mapping[str, str]], Refusal | None]
"""What a request (method, path, headers with names in lower case) is answered here; None: it passes."""


class Door(ThreadingHTTPServer):
    """The door to the server at `behind`, a port of this host."""

    daemon_threads = True

    def __init__(self, behind: int, refuse: Refuse) -> None:
        super().__init__(("127.0.0.1", 0), _Passage)
        self.behind = behind
        self.refuse = refuse

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Passage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Door

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        refused = self.server.refuse(self.command, self.path, headers)
        if refused is None:
            self._pass_on(headers, body)
        else:
            self._send(refused[0], {}, refused[1])

    def _pass_on(self, headers: dict[str, str], body: bytes) -> None:
        headers.pop("expect", None)  # answered already
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)) as connection:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            self._send(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        headers.pop("transfer-encoding", None)
        if self.command != "HEAD":
            headers["content-length"] = str(len(body))
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden name
        """Say nothing."""


@contextmanager
def door_to(port: int, refuse: Refuse) -> Iterator[Door]:
    """Such a door, open."""
    with Door(port, refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
