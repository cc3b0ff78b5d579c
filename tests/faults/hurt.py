"""The means to hurt what is behind the gateway: its instances, one at a time, and its database."""

import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.system.stack import Stack
from workers.providers.local.processes import Directory, directories


@dataclass(frozen=True)
class Victim:
    """A running instance."""

    directory: Directory

    @property
    def pids(self) -> list[int]:
        """The container's processes: the children of the one that looks after it; none when that is gone."""
        keeper = (self.directory.state or {})["pid"]
        with suppress(OSError):
            return [int(pid) for pid in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()]
        return []

    def die(self) -> None:
        """At once, whatever it is doing."""
        self.directory.kill()

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Its sockets accept and its process does nothing, for as long as the context lasts."""
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        """To all that are still there: it may have been replaced meanwhile."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextmanager
    def talking_nonsense(self) -> Iterator[None]:
        """It answers every call with what is no HTTP; its /ping says that all is well."""
        self._tell("from-now:garbage")
        try:
            yield
        finally:
            self._tell("from-now:")

    def _tell(self, mode: str) -> None:
        """Tell the container, behind the gateway's back."""
        port = int((self.directory.state or {})["port"])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/invocations", b"x", {"X-Amzn-SageMaker-Custom-Attributes": f"mode={mode}"})
        connection.getresponse().read()
        connection.close()


def victims(stack: Stack) -> list[Victim]:
    """The instances that run, in the order of their ids."""
    running = (each for each in directories(stack.data_dir) if each.is_alive)
    return [Victim(each) for each in running if (each.state or {}).get("status") == "running" and not each.is_stopping]


@contextmanager
def database_away(stack: Stack) -> Iterator[None]:
    """PostgreSQL is killed, and again whenever its supervisor has started it; its data are left."""
    ended = threading.Event()

    def keep_down() -> None:
        while not ended.is_set():
            stack.kill("postgres")
            ended.wait(0.05)

    killer = threading.Thread(target=keep_down)
    killer.start()
    try:
        yield
    finally:
        ended.set()
        killer.join()


def wait_seconds(seconds: float) -> None:
    """Let the load go on for a while."""
    threading.Event().wait(seconds)


def told_age(stack: Stack) -> int:
    """Seconds of age that /readyz tells of the routing table; 0 where it finds nothing to say."""
    connection = http.client.HTTPConnection("127.0.0.1", int(stack.port), timeout=60)
    try:
        connection.request("GET", "/readyz")
        words = str(json.loads(connection.getresponse().read())["routing_table"])
    finally:
        connection.close()
    return int(words.removesuffix(" s old")) if words.endswith(" s old") else 0
