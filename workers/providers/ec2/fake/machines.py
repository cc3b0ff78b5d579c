"""Instances that answer: a listener for each on its own loopback address, all at one port, as machines have it.

An instance answers while it runs and is not sick; otherwise its listener closes the connection without a word. Addresses
of 127.0.0.0/8 other than 127.0.0.1 exist on Linux without being set up.
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from controlplane.core import clock
from workers.providers.ec2.fake.world import Instance, World

BODY_LIMIT_BYTES = 32 * 1024 * 1024


class Machines:
    """The listeners of a world's instances."""

    def __init__(self, world: World, port: int) -> None:
        self._world = world
        self._port = port
        self._listeners: dict[str, ThreadingHTTPServer] = {}
        self._lock = threading.Lock()

    def settle(self) -> None:
        """A listener for each instance that has none, none for those that are terminated. Raises OSError."""
        live = {instance.instance_id: instance for instance in self._world.live()}
        with self._lock:
            for instance_id in [each for each in self._listeners if each not in live]:
                _end(self._listeners.pop(instance_id))
            for instance_id, instance in live.items():
                if instance_id not in self._listeners:
                    self._listeners[instance_id] = self._listen(instance)

    def close(self) -> None:
        """End all listeners."""
        with self._lock:
            for listener in self._listeners.values():
                _end(listener)
            self._listeners.clear()

    def _listen(self, instance: Instance) -> ThreadingHTTPServer:
        world = self._world

        def is_answering() -> bool:
            is_sick = world.faults.read("is_sick", instance.instance_type) > 0
            return instance.state(clock.now()) == "running" and not is_sick

        class Container(BaseHTTPRequestHandler):
            """A container that answers /ping with 200 and everything posted with itself."""

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                length = min(int(self.headers.get("Content-Length") or 0), BODY_LIMIT_BYTES)
                self._answer(self.rfile.read(length))

            def _answer(self, body: bytes) -> None:
                if not is_answering():
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("Content-Type", self.headers.get("Content-Type") or "application/octet-stream")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        listener = ThreadingHTTPServer((instance.ip, self._port), Container)
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return listener


def _end(listener: ThreadingHTTPServer) -> None:
    listener.shutdown()
    listener.server_close()
