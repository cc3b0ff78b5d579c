"""One supervised process: how it is started, known to be ready, and stopped."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.core import clock

MARK = "HEADRACE_SUPERVISED"
"""Variable that every child carries, with the data directory as its value: leftovers are found by it."""

POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1


class Stopped(Exception):
    """The user asked to stop while a process was starting."""


class StartFailed(Exception):
    """A process did not become ready; the message has the end of its log and says what to look at."""


@dataclass(frozen=True)
class Spec:
    """What to run. `uid` is the user to run as (None = the current one); `is_ready` must be quick and not raise."""

    name: str
    argv: list[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    ready_seconds: float = 60.0
    uid: int | None = None
    is_ready: Callable[[int], bool] = lambda pid: True
    before_start: Callable[[], None] = lambda: None


class Child:
    """A process made from a spec; it can be started again after it ended."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0

    @property
    def pid(self) -> int:
        """The process id, 0 before the first start."""
        return self.process.pid if self.process else 0

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process in a group of its own; its output goes to its log, never into a pipe nobody reads."""
        self.spec.before_start()
        self.started_at = clock.monotonic()
        with open(self.spec.log, "ab") as log:
            self.process = subprocess.Popen(
                self.spec.argv,
                env={**self.spec.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.spec.uid,
                group=self.spec.uid and _group_of(self.spec.uid),
                extra_groups=[] if self.spec.uid else None,
                preexec_fn=_die_with(self.spec.stop_signal) if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    def wait_ready(self, stopping: threading.Event) -> float:
        """Wait until the process is ready; seconds since its start. Raises StartFailed, or Stopped."""
        deadline = self.started_at + self.spec.ready_seconds
        while not self.spec.is_ready(self.pid):
            if not self.is_running:
                raise StartFailed(f"{self.spec.name} ended while it was starting. {self._log_tail()}")
            if stopping.is_set():
                raise Stopped
            if clock.monotonic() > deadline:
                raise StartFailed(f"{self.spec.name} was not ready in {self.spec.ready_seconds:.0f} s. {self._log_tail()}")
            stopping.wait(POLL_SECONDS)
        return clock.monotonic() - self.started_at

    def ask_to_stop(self) -> None:
        """Ask the process to end; `stop` waits for it."""
        if self.process is not None and self.is_running:
            self.process.send_signal(self.spec.stop_signal)

    def stop(self) -> None:
        """Ask the process to end, wait, and kill what is left of its group."""
        if self.process is None:
            return
        if self.is_running:
            self.ask_to_stop()
            try:
                self.process.wait(self.spec.stop_seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.kill_group()

    def kill_group(self) -> None:
        """End whatever the process left behind in its group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def _log_tail(self) -> str:
        lines = self.spec.log.read_text(errors="replace").splitlines()[-15:]
        return f"The end of {self.spec.log}:\n" + "\n".join(f"    {line}" for line in lines)


def _group_of(uid: int) -> int:
    import pwd  # noqa: PLC0415 - not on every platform

    return pwd.getpwuid(uid).pw_gid


def _die_with(number: signal.Signals) -> Callable[[], None]:
    """Let the kernel signal the child when the supervisor dies, so that killing it leaves no servers behind."""

    def prepare() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))

    return prepare
