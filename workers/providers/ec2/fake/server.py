"""The fake behind HTTP: the API of EC2 at `POST /`, and the operator's routes, which take and give JSON.

POST /knobs      {"boot_seconds": 5} or {"throttle": {"g5.2xlarge": 3}}
POST /capacity   {"g5.2xlarge": 2} or {"g5.2xlarge": {"us-east-1a": 0}}
POST /quotas     {"spot": 1}
POST /refusals   {"g5.2xlarge": {"code": "VcpuLimitExceeded"}}; "" as the code ends it
POST /hands      {"shut_down" | "take_away" | "interrupt": {"instance_id": ..., ...}}, as the world's methods
GET  /calls      the journal
"""

import dataclasses
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from workers.providers.ec2.fake import calls, wire
from workers.providers.ec2.fake.faults import ALL, Lost, Refused
from workers.providers.ec2.fake.machines import Machines
from workers.providers.ec2.fake.world import World, new_id

BODY_LIMIT_BYTES = 1024 * 1024
_HANDS = ("shut_down", "take_away", "interrupt")


class FakeEc2:
    """A running fake. `with FakeEc2(World({"subnet-00000001": "us-east-1a"})) as fake: ... fake.url`."""

    def __init__(self, world: World, port: int = 0, machine_port: int = 0) -> None:
        """Listens on 127.0.0.1; a port of 0 is chosen by the system. Where `machine_port` is 0 instances do not answer."""
        self.world = world
        self.machine_port = machine_port
        wire.model()
        self._server = _Server(world, Machines(world, machine_port) if machine_port else None, port)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """What HEADRACE_EC2_ENDPOINT_URL is set to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "FakeEc2":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._server.machines is not None:
            self._server.machines.close()

    def serve_until_ended(self) -> None:
        """Wait until the server ends."""
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, world: World, machines: Machines | None, port: int) -> None:
        self.world = world
        self.machines = machines
        super().__init__(("127.0.0.1", port), _Handler)

    def answer(self, body: str) -> tuple[int, bytes]:
        """Status and XML for one call of the API; raises Lost."""
        request_id = new_id("req")
        try:
            action, parameters = wire.read(body)
            answer = calls.call(self.world, action, parameters)
        except ValueError as error:
            return 400, wire.write_error("InvalidParameterValue", str(error), request_id)
        except Refused as error:
            return error.status, wire.write_error(error.code, error.message, request_id)
        finally:
            if self.machines is not None:
                self.machines.settle()
        return 200, wire.write(action, answer, request_id)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.path != "/calls":
            return self._send(404, b"", "text/plain")
        journal = [dataclasses.asdict(call) for call in list(self.server.world.journal)]
        return self._send(200, json.dumps(journal, default=str).encode(), "application/json")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_LIMIT_BYTES:
            self.close_connection = True
            return self._send(413, b"", "text/plain")
        body = self.rfile.read(length).decode()
        if self.path in _ORDERS:
            return self._order(body)
        try:
            status, answer = self.server.answer(body)
        except Lost:
            self.close_connection = True
            return None
        return self._send(status, answer, "text/xml")

    def _order(self, body: str) -> None:
        try:
            _ORDERS[self.path](self.server.world, json.loads(body))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return self._send(400, f"{type(error).__name__}: {error}".encode(), "text/plain")
        return self._send(200, b"{}", "application/json")

    def _send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the journal tells it."""


def _by_subject(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {ALL: found}


def _set_knobs(world: World, found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        for subject, position in _by_subject(value).items():
            world.set_knob(name, float(position), subject)


def _set_capacity(world: World, found: Mapping[str, Any]) -> None:
    for instance_type, value in found.items():
        for zone, slots in _by_subject(value).items():
            world.set_capacity(instance_type, int(slots), zone)


def _set_quotas(world: World, found: Mapping[str, Any]) -> None:
    for market, slots in found.items():
        world.set_quota(market, int(slots))


def _set_refusals(world: World, found: Mapping[str, Any]) -> None:
    for subject, order in found.items():
        world.refuse(subject, **order)


def _lend_a_hand(world: World, found: Mapping[str, Any]) -> None:
    for name, arguments in found.items():
        if name not in _HANDS:
            raise ValueError(f"There is no {name!r}; there are {', '.join(_HANDS)}.")
        getattr(world, name)(**arguments)


_ORDERS: Mapping[str, Callable[[World, Any], None]] = {
    "/knobs": _set_knobs,
    "/capacity": _set_capacity,
    "/quotas": _set_quotas,
    "/refusals": _set_refusals,
    "/hands": _lend_a_hand,
}
