"""The shim: one small process for each instance, which owns its container and outlives whoever launched it.

Run as a script with an instance directory. It detaches, takes `alive.lock` for life, fetches the model's data, picks a
free port, starts the container in a process group of its own, keeps its output within bounds, passes SIGTERM on (SIGKILL
after the grace), and writes down how it ended. If the shim itself is killed, the kernel kills the container.

Only the standard library, so that an instance costs a few megabytes and starts in milliseconds.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

LOG_LIMIT_BYTES = 4 * 1024 * 1024
DETAIL_LIMIT = 300
PR_SET_PDEATHSIG = 1


def main(directory: Path, ready_fd: int) -> None:
    """Detach, then look after one instance until it ends."""
    if os.fork():
        os._exit(0)
    os.setsid()
    lock = open(directory / "alive.lock", "w")  # noqa: SIM115 - held until this process ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os._exit(0)
    spec = json.loads((directory / "spec.json").read_text())
    Shim(directory, spec).run(ready_fd)


class Shim:
    """One instance: its directory, what was asked for, and the container once it runs."""

    def __init__(self, directory: Path, spec: dict[str, Any]) -> None:
        self._directory = directory
        self._spec = spec
        self._is_stopping = False
        self._last_line = b""

    def run(self, ready_fd: int) -> None:
        """Tell the launcher that the lock is held, then run the container to its end."""
        self._wakeup, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._say("pending")
        os.write(ready_fd, b"1")
        os.close(ready_fd)
        if not self._fetch_model_data():
            return
        self._run_container()

    def _stop(self, *_: object) -> None:
        self._is_stopping = True

    def _fetch_model_data(self) -> bool:
        """Run the download as a process of its own, within its time; False when there is no data to go on with."""
        if not self._spec["fetch_command"]:
            return True
        child = self._start(self._spec["fetch_command"], self._spec["fetch_environment"])
        timeout = self._spec["fetch_timeout_seconds"]
        code = self._wait(child, time.monotonic() + timeout)
        if code == 0 and not self._is_stopping:
            return True
        detail = f"not within {timeout} s" if code is None else self._describe_end(code)
        self._say("exited", detail=detail, failure="model_data")
        return False

    def _run_container(self) -> None:
        port = _free_port()
        command = [part.replace("{port}", str(port)) for part in self._spec["command"]]
        environment = {**self._spec["environment"], "SAGEMAKER_BIND_TO_PORT": str(port)}
        try:
            child = self._start(command, environment)
        except OSError as error:
            self._say("exited", detail=f"{command[0]} cannot be started: {error.strerror}", failure="container_exited")
            return
        self._say("running", port=port, child=child.pid)
        code = self._wait(child, None)
        self._say("exited", detail=self._describe_end(code or 0), failure="container_exited")

    def _start(self, command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            env=environment,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )

    def _wait(self, child: "subprocess.Popen[bytes]", deadline: float | None) -> int | None:
        """Copy the child's output until it ends; its exit code, None when `deadline` (monotonic) ended it."""
        output = child.stdout
        assert output is not None
        os.set_blocking(output.fileno(), False)
        timed_out = False
        with selectors.DefaultSelector() as waiting, open(self._directory / "log", "ab") as log:
            waiting.register(output, selectors.EVENT_READ)
            waiting.register(self._wakeup, selectors.EVENT_READ)
            kill_at: float | None = None
            while child.poll() is None:
                limits = [limit for limit in (deadline, kill_at) if limit is not None]
                waiting.select(max(min(limits) - time.monotonic(), 0) if limits else None)
                self._drain(output, log, waiting)
                now = time.monotonic()
                if self._is_stopping and kill_at is None:
                    _signal_group(child.pid, signal.SIGTERM)
                    kill_at = now + self._spec["grace_seconds"]
                timed_out = timed_out or (deadline is not None and now >= deadline)
                if timed_out or (kill_at is not None and now >= kill_at):
                    _signal_group(child.pid, signal.SIGKILL)
                    deadline, kill_at = None, now + 1.0
            self._drain(output, log, waiting)
        _signal_group(child.pid, signal.SIGKILL)  # whatever the container left behind in its group
        return None if timed_out else child.returncode

    def _drain(self, output: IO[bytes], log: IO[bytes], waiting: selectors.BaseSelector) -> None:
        """Move what the child wrote into the log, starting it afresh when it grew too large."""
        os.set_blocking(self._wakeup, False)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        while output.fileno() in {key.fd for key in waiting.get_map().values()}:
            try:
                data = os.read(output.fileno(), 65536)
            except BlockingIOError:
                break
            if not data:
                waiting.unregister(output)
                break
            if log.tell() + len(data) > LOG_LIMIT_BYTES:
                log.truncate(0)
            log.write(data)
            log.flush()
            self._last_line = ([b"", self._last_line] + [line for line in data.splitlines() if line.strip()])[-1]

    def _describe_end(self, code: int) -> str:
        """How the child ended, with its last line, as one clean line."""
        end = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        text = self._last_line.decode("utf-8", "replace")
        clean = "".join(character if character.isprintable() else " " for character in text).strip()
        return f"{end}: {clean[:DETAIL_LIMIT]}" if clean else end

    def _say(self, status: str, **facts: object) -> None:
        """Replace the state file, in one step for whoever reads it."""
        state = {"status": status, "pid": os.getpid(), **facts}
        temporary = self._directory / "state.tmp"
        temporary.write_text(json.dumps(state))
        temporary.replace(self._directory / "state.json")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
