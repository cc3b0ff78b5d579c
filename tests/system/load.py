"""A steady load on an endpoint: so many signed calls a second, whatever becomes of them."""

import http.client
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.system.raw import signed
from tests.system.stack import Stack

CALLERS = 8


@dataclass
class Load:
    """What came of the calls so far: `answers` by status (a broken connection is its error's name)."""

    stack: Stack
    endpoint: str
    rate: float
    answers: Counter[str] = field(default_factory=Counter)
    _ended: threading.Event = field(default_factory=threading.Event)
    _tickets: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def failed(self) -> dict[str, int]:
        """Everything but 200, by what it was."""
        return {answer: count for answer, count in self.answers.items() if answer != "200"}

    def run(self, started_at: float) -> None:
        """Call whenever the next ticket's time has come."""
        connection = http.client.HTTPConnection("127.0.0.1", int(self.stack.port), timeout=30)
        while True:
            with self._lock:
                due = started_at + next(self._tickets) / self.rate
            if self._ended.wait(max(due - time.monotonic(), 0)):
                connection.close()
                return
            answer = self._call(connection)
            with self._lock:
                self.answers[answer] += 1

    def _call(self, connection: http.client.HTTPConnection) -> str:
        path = f"/endpoints/{self.endpoint}/invocations"
        wanted = {"X-Amzn-SageMaker-Custom-Attributes": "mode=delay:0.05"}
        try:
            connection.request("POST", path, b"x", signed(self.stack, "POST", path, wanted, b"x"))
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        return str(answer.status)

    def end(self) -> None:
        """No further calls."""
        self._ended.set()


@contextmanager
def steady(stack: Stack, endpoint: str, rate: float = 50.0) -> Iterator[Load]:
    """A load for as long as the context lasts."""
    load = Load(stack, endpoint, rate)
    started_at = time.monotonic()
    callers = [threading.Thread(target=load.run, args=(started_at,)) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield load
    finally:
        load.end()
        for caller in callers:
            caller.join()
        elapsed = time.monotonic() - started_at
        total = sum(load.answers.values())
        print(f"{endpoint}: {total} calls in {elapsed:.1f} s ({total / elapsed:.0f}/s), failed: {load.failed or 0}")
