"""A steady load of whole answers and of streams, each call with an id of its own, and what became of every one."""

import http.client
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from controlplane.gateway.model_errors import UNREACHED
from tests.system.raw import signed
from tests.system.stack import Stack

CALLERS = 12
EACH_NTH_STREAMS = 3
WHOLE, STREAM = "invocations", "invocations-response-stream"
MODES = {WHOLE: "delay:0.05", STREAM: "pace:8:0.1"}
CHUNKS = 8
"""Of a stream, as its mode says; so long that some two of them are at each instance at any time."""


@dataclass(frozen=True)
class Call:
    """One call; `lost` is empty where it was answered whole, else what came instead.

    `was_sent` says of a lost call that the container had been sent it, so that nobody could tell whether it ran: only then
    may it be lost at all. `has_begun`: a part of its answer was there.
    """

    id: str
    verb: str
    ended: float
    lost: str = ""
    was_sent: bool = False
    has_begun: bool = False


@dataclass
class Traffic:
    """Calls whenever their time has come, whatever becomes of them."""

    stack: Stack
    endpoint: str
    rate: float
    calls: list[Call] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _tickets: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, started_at: float) -> None:
        """One caller, until the end."""
        connection = http.client.HTTPConnection("127.0.0.1", int(self.stack.port), timeout=30)
        while True:
            with self._lock:
                number = next(self._tickets)
            if self._ended.wait(max(started_at + number / self.rate - time.monotonic(), 0)):
                connection.close()
                return
            call = self._call(connection, number)
            with self._lock:
                self.calls.append(call)

    def end(self) -> None:
        """No further calls."""
        self._ended.set()

    def _call(self, connection: http.client.HTTPConnection, number: int) -> Call:
        verb, name = (WHOLE, STREAM)[number % EACH_NTH_STREAMS == 0], f"day-{number}"
        path = f"/endpoints/{self.endpoint}/{verb}"
        wanted = {
            "X-Amzn-SageMaker-Custom-Attributes": f"mode={MODES[verb]}",
            "X-Amzn-SageMaker-Inference-Id": name,
        }
        body, part = name.encode(), b""
        try:
            connection.request("POST", path, body, signed(self.stack, "POST", path, wanted, body))
            answer = connection.getresponse()
            part = answer.read()
        except http.client.IncompleteRead as error:
            connection.close()
            return Call(name, verb, time.monotonic(), "cut off", was_sent=True, has_begun=bool(error.partial))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return Call(name, verb, time.monotonic(), f"no answer of the gateway: {error!r}")
        return _judged(name, verb, answer, part)


def _judged(name: str, verb: str, answer: http.client.HTTPResponse, body: bytes) -> Call:
    now = time.monotonic()
    if answer.status == http.client.OK:
        expected = body == name.encode() if verb == WHOLE else body.count(b"chunk ") == CHUNKS
        lost = "" if expected else "a stream that ends in an error" if b"ModelStreamError" in body else "a wrong answer"
        return Call(name, verb, now, lost, was_sent=b"ModelStreamError" in body, has_begun=bool(lost))
    was_sent = answer.status == http.client.FAILED_DEPENDENCY and UNREACHED.encode() not in body
    return Call(name, verb, now, f"{answer.status} {body[:200].decode('latin-1')}", was_sent=was_sent)


@contextmanager
def steady(stack: Stack, endpoint: str, rate: float = 30.0) -> Iterator[Traffic]:
    """Traffic of `rate` calls a second for as long as the context lasts."""
    traffic, started_at = Traffic(stack, endpoint, rate), time.monotonic()
    callers = [threading.Thread(target=traffic.run, args=(started_at,)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield traffic
    finally:
        traffic.end()
        for caller in callers:
            caller.join()
