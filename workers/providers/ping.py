"""`GET /ping` of a container over HTTP, as the container contract has it: 200 is healthy, anything else is not.

Spoken by hand, since only the status line matters and the time limit has to hold for the whole answer, also against a
container that sends one byte a second.
"""

import re
import socket

from controlplane.core import clock
from workers.providers.base import Health

STATUS_LINE_LIMIT = 1024
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\n]*)?\r?\n")


def ping(address: str, timeout_seconds: float) -> Health:
    """Ask `host:port` once; a container that does not answer in time or answers nonsense is unhealthy, never an error."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return Health(False, "it has no address yet")
    deadline = clock.monotonic() + timeout_seconds
    try:
        line = _status_line((host.strip("[]"), int(port)), deadline)
    except TimeoutError:
        return Health(False, f"/ping did not answer within {timeout_seconds:g} s")
    except (OSError, OverflowError) as error:
        return Health(False, f"/ping failed: {type(error).__name__}")
    found = _STATUS_LINE.match(line)
    if found is None:
        return Health(False, "/ping answered something that is not HTTP" if line else "/ping closed the connection")
    status = int(found[1])
    return Health(status == 200, "" if status == 200 else f"/ping answered {status}")


def _status_line(address: tuple[str, int], deadline: float) -> bytes:
    """What comes before the first newline, or before the peer closes or has sent too much. Raises OSError."""
    seen = b""
    with socket.create_connection(address, timeout=_left(deadline)) as connection:
        connection.sendall(b"GET /ping HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % address[0].encode())
        while b"\n" not in seen and len(seen) < STATUS_LINE_LIMIT:
            connection.settimeout(_left(deadline))
            data = connection.recv(STATUS_LINE_LIMIT)
            if not data:
                break
            seen += data
    return seen


def _left(deadline: float) -> float:
    left = deadline - clock.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
