"""Between a client and the test's database: passes everything on, until it hangs up as a killed backend does.

A backend that is ended in the middle of something says its last words, and what it has not read by then makes its system
reset the connection: the client finds words and the reset at once.
"""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER by which closing a socket resets its connection."""


def warning(text: str) -> bytes:
    """A NoticeResponse of PostgreSQL."""
    fields = f"SWARNING\0C57P02\0M{text}\0\0".encode()
    return b"N" + struct.pack(">i", len(fields) + 4) + fields


LAST_WORDS = warning("terminating connection because of crash of another server process")


class Relay:
    """Passes on, in threads of its own, whatever connects to `url` instead of to the database."""

    def __init__(self, database_url: str, port: int = 0) -> None:
        parts = urlsplit(database_url)
        self._database = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._server = socket.create_server(("127.0.0.1", port))
        account = parts.netloc.rpartition("@")[0]
        self.url = f"postgresql://{account}@127.0.0.1:{self._server.getsockname()[1]}{parts.path}?sslmode=disable"
        self._clients: list[socket.socket] = []
        self._silent: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown(socket.SHUT_RDWR)  # whoever waits there for the next client lets go of it
        self._server.close()
        self.crash(b"")

    def crash(self, last_words: bytes = LAST_WORDS) -> None:
        """Hang up on everybody who is connected: last words, and a reset with them."""
        for client in self._clients:
            self._silent.add(client)
            with suppress(OSError):
                client.sendall(last_words)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.shutdown(socket.SHUT_RD)  # whoever reads from it in another thread lets go of it
            client.close()
        self._clients.clear()

    def fall_silent(self) -> None:
        """Answer nobody who is connected any more, as a host that hangs or has vanished."""
        self._silent.update(self._clients)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                database = socket.create_connection(self._database)
                self._clients.append(client)
                for source, sink in ((client, database), (database, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self._silent & {source, sink}:
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
