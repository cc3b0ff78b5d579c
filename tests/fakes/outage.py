"""A way to a server that can be shut: while it is, whoever comes is turned away at once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Way:
    """Leads from `port` to a server, unless it is shut or the server is away; `turned_away` counts who came in vain."""

    to: tuple[str, int]
    port: int = 0
    is_shut: bool = False
    turned_away: int = 0
    _open: "list[socket.socket]" = field(default_factory=list)
    _leading: threading.Lock = field(default_factory=threading.Lock)
    """Whoever is let in is on the list before anybody shuts the way."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def shut(self) -> None:
        """Let nobody through any more, nor those who are on their way."""
        with self._leading:
            self.is_shut = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def serve(self, listener: socket.socket) -> None:
        """Take callers until the listener is closed."""
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                with self._leading:
                    if self.is_shut or not self._lead(caller):
                        self.turned_away += 1
                        caller.close()

    def _lead(self, caller: socket.socket) -> bool:
        """Whether there is a server to lead the caller to."""
        try:
            server = socket.create_connection(self.to)
        except OSError:
            return False
        self._open += [caller, server]
        for source, sink in ((caller, server), (server, caller)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()
        return True


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError), closing(sink):
        while data := source.recv(65536):
            sink.sendall(data)


@contextmanager
def way_to(host: str, port: int) -> Iterator[Way]:
    """An open way to the server at host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        way = Way((host, port), listener.getsockname()[1])
        thread = threading.Thread(target=way.serve, args=[listener], daemon=True)
        thread.start()
        try:
            yield way
        finally:
            way.shut()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
