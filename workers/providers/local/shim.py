"""The shim: one small process for each instance, which owns its container and outlives whoever launched it.

Run as a script with an instance directory and the descriptor of its `alive.lock`, which it holds for life. It fetches
the model's data, picks a free port, starts the container in a process group of its own, keeps its output within bounds,
passes SIGTERM on (SIGKILL after the grace), and writes down how it ended:

    pending --> running --> exited
        +-------------------^        (no model data, a command that cannot be started, an end asked for early)

If the shim itself is killed, the kernel kills the container, and `end_survivors` finds whatever that one had started.

Only the standard library and no import of this project, so that an instance costs a few megabytes and starts in
milliseconds. Durations are measured on the monotonic clock of the host: there is no other clock in this process.
"""

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = "HEADRACE_INSTANCE"
"""Variable that every process of an instance carries, with the instance's directory as its value."""

LOG_LIMIT_BYTES = 2 * 1024 * 1024
"""Of each of the two files that a log rotates through."""

DETAIL_LIMIT = 300
TAIL_BYTES = 4096
READ_BYTES = 65536
READS_AT_ONCE = 16
"""So that a container that never stops printing cannot keep the shim from looking at anything else."""

_PR_SET_PDEATHSIG = 1


def main(directory: Path) -> None:
    """Detach, so that nobody has to wait for this process, then look after one instance until it ends."""
    if os.fork():
        os._exit(0)
    os.setsid()
    Shim(directory, json.loads((directory / "spec.json").read_text())).run()


class Output:
    """What the container prints: into a log of bounded size, and the last bytes kept for the explanation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tail = b""

    def add(self, data: bytes) -> None:
        """Keep `data`; a full disk costs the log, never the container."""
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        with contextlib.suppress(OSError):
            if self._path.exists() and self._path.stat().st_size + len(data) > LOG_LIMIT_BYTES:
                self._path.replace(self._path.with_name("log.1"))
            with open(self._path, "ab") as log:
                log.write(data)

    def last_line(self) -> str:
        """The last line that says something, printable and short."""
        lines = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        text = lines[-1] if lines else ""
        return "".join(letter if letter.isprintable() else " " for letter in text).strip()[:DETAIL_LIMIT]


class Ending:
    """Which signal a child's process group gets, and when: SIGTERM, then SIGKILL after the grace or at the deadline."""

    def __init__(self, leader: int, grace_seconds: float, deadline: float | None) -> None:
        self._leader = leader
        self._grace_seconds = grace_seconds
        self._kill_at = deadline
        self._was_asked = False
        self.was_late = False

    def wait_seconds(self) -> float | None:
        """How long nothing needs to be done; None = until something happens."""
        return None if self._kill_at is None else max(self._kill_at - time.monotonic(), 0.0)

    def step(self, is_wanted: bool) -> None:
        """Send what is due."""
        now = time.monotonic()
        if is_wanted and not self._was_asked:
            self._was_asked = True
            signal_group(self._leader, signal.SIGTERM)
            self._kill_at = now + self._grace_seconds
        if self._kill_at is not None and now >= self._kill_at:
            self.was_late = not self._was_asked
            signal_group(self._leader, signal.SIGKILL)
            self._kill_at = now + 1.0


class Shim:
    """One instance: its directory, what was asked for, and whether its end was asked for meanwhile."""

    def __init__(self, directory: Path, spec: dict[str, Any]) -> None:
        self._directory = directory
        self._spec = spec
        self._is_stopping = False
        self._output = Output(directory / "log")

    def run(self) -> None:
        """Bring the instance from its start to its end."""
        self._listen_for_signals()
        self._say("pending")
        # Looked at after `pending` was said: whoever asked for the end before that had no process id to signal.
        self._is_stopping = self._is_stopping or (self._directory / "stop").exists()
        try:
            if self._fetch_model_data():
                self._run_container()
        finally:
            shutil.rmtree(self._directory / "model", ignore_errors=True)

    def _listen_for_signals(self) -> None:
        self._wakeup, write_end = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _fetch_model_data(self) -> bool:
        """Run the download as a process of its own, within its time; False when there is nothing to go on with."""
        if self._is_stopping:
            self._say("exited", detail="ended before it started")
            return False
        if not self._spec["fetch_command"]:
            return True
        timeout = self._spec["fetch_timeout_seconds"]
        code = self._run_to_end(self._spec["fetch_command"], dict(os.environ), time.monotonic() + timeout)
        if code == 0 and not self._is_stopping:
            return True
        detail = f"the download did not end within {timeout} s" if code is None else self._output.last_line()
        self._say("exited", detail=detail or _describe_end(code or 0), failure="model_data")
        return False

    def _run_container(self) -> None:
        port = free_port()
        command = [part.replace("{port}", str(port)) for part in self._spec["command"]]
        environment = {**self._spec["environment"], "SAGEMAKER_BIND_TO_PORT": str(port)}
        try:
            code = self._run_to_end(command, environment, None, lambda: self._say("running", port=port))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            # ValueError: an environment that no process can have (a NUL in it).
            detail = f"{command[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
        else:
            line = self._output.last_line()
            detail = _describe_end(code or 0) + (f": {line}" if line else "")
        self._say("exited", detail=detail, failure="container_exited")

    def _run_to_end(
        self,
        command: list[str],
        environment: dict[str, str],
        deadline: float | None,
        started: Callable[[], None] = lambda: None,
    ) -> int | None:
        """Run a child and copy its output until it ends; its exit code, None when `deadline` (monotonic) ended it.

        Raises what Popen raises when the child cannot be started.
        """
        child = self._start(command, environment)
        started()
        ending = Ending(child.pid, self._spec["grace_seconds"], deadline)
        assert child.stdout is not None
        with child.stdout as output, selectors.DefaultSelector() as waiting:
            os.set_blocking(output.fileno(), False)
            waiting.register(output, selectors.EVENT_READ)
            waiting.register(self._wakeup, selectors.EVENT_READ)
            while child.poll() is None:
                waiting.select(ending.wait_seconds())
                self._copy(output.fileno(), waiting)
                ending.step(self._is_stopping)
            self._copy(output.fileno(), waiting)
        signal_group(child.pid, signal.SIGKILL)
        end_survivors(self._directory)
        return None if ending.was_late else child.returncode

    def _start(self, command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            env={**environment, MARK: str(self._directory)},
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()),  # noqa: PLW1509 - this process has one thread
        )

    def _copy(self, output: int, waiting: selectors.BaseSelector) -> None:
        """Forget the wake-ups, and move what the child printed into the log."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, TAIL_BYTES)
        if output not in waiting.get_map():
            return
        for _ in range(READS_AT_ONCE):
            try:
                data = os.read(output, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                waiting.unregister(output)
                return
            self._output.add(data)

    def _say(self, status: str, **facts: object) -> None:
        """Replace the state file, in one step for whoever reads it."""
        write_state(self._directory, {"status": status, "pid": os.getpid(), **facts})


def write_state(directory: Path, state: dict[str, Any]) -> None:
    """Replace `state.json`; readers see the old one or the new one."""
    temporary = directory / "state.tmp"
    temporary.write_text(json.dumps(state))
    temporary.replace(directory / "state.json")


def end_survivors(directory: Path) -> int:
    """Kill every process that carries this instance's mark, whatever group it moved to; returns how many were found.

    Only where /proc tells of processes; elsewhere the container's process group has to do.
    """
    mark = f"{MARK}={directory}".encode()
    found = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _carries(folder, mark)]
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _carries(folder: Path, mark: bytes) -> bool:
    try:
        return mark in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def signal_group(leader: int, number: int) -> None:
    """Signal a process group, which may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _describe_end(code: int) -> str:
    return f"killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _die_with_parent(parent: int) -> Callable[[], None]:
    """What a child does first: ask the kernel to be killed with its parent, which may have died just now."""

    def ask() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return ask


if __name__ == "__main__":
    main(Path(sys.argv[1]))
