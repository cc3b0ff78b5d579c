"""Starting, watching and ending one process."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.core import clock
from controlplane.embedded.child import MARK, Child, Spec, StartFailed, Stopped
from controlplane.embedded.leftovers import end_leftovers

ENDS_WITH_PARENT = sys.platform == "linux"
"""Only Linux has a signal for the death of a parent."""

HAS_PROC = Path("/proc").is_dir()
"""Leftovers are found there, and not at all on a system without it."""


def spec(tmp_path: Path, *argv: str, is_ready: Callable[[int], bool] = lambda pid: True, env: str = "") -> Spec:
    """A process of this name and command, logging into `tmp_path`."""
    environment = {"PATH": os.defpath, MARK: env or str(tmp_path)}
    return Spec("sample", list(argv), tmp_path / "sample.log", environment, is_ready=is_ready, stop_seconds=1.0)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie, where one can be told, does not."""
    try:
        os.kill(pid, 0)
        return not HAS_PROC or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Poll until the condition holds."""
    deadline, pause = clock.monotonic() + seconds, threading.Event()
    while not condition() and clock.monotonic() < deadline:
        pause.wait(0.02)
    return condition()


def test_failure_to_start_carries_the_end_of_the_log(tmp_path: Path) -> None:
    child = Child(spec(tmp_path, "/bin/sh", "-c", "echo no such disk; exit 3", is_ready=lambda pid: False))
    child.start()
    with pytest.raises(StartFailed, match="no such disk"):
        child.wait_ready(threading.Event())


def test_a_stop_during_the_start_is_no_failure(tmp_path: Path) -> None:
    child = Child(spec(tmp_path, "/bin/sleep", "60", is_ready=lambda pid: False))
    child.start()
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(Stopped):
        child.wait_ready(stopping)
    child.stop()
    assert not child.is_running


def test_a_process_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done"
    child = Child(spec(tmp_path, "/bin/sh", "-c", script, is_ready=lambda pid: ready.exists()))
    child.start()
    child.wait_ready(threading.Event())
    child.stop()
    assert child.process is not None
    assert child.process.returncode == -signal.SIGKILL


def test_children_end_with_a_parent_that_is_killed_where_the_system_can_do_that(tmp_path: Path) -> None:
    program = (
        "import sys, threading; from pathlib import Path; from controlplane.embedded.child import Child, Spec\n"
        "child = Child(Spec('sample', ['/bin/sleep', '60'], Path(sys.argv[1])))\n"
        "child.start(); print(child.pid, flush=True); threading.Event().wait(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    try:
        assert eventually(lambda: not is_alive(pid)) is ENDS_WITH_PARENT
    finally:
        if not ENDS_WITH_PARENT:
            os.kill(pid, signal.SIGKILL)


def test_leftovers_are_those_of_this_data_directory_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    left, other = (Child(spec(folder, "/bin/sleep", "60")) for folder in (ours, theirs))
    left.start()
    other.start()
    assert end_leftovers(ours) == int(HAS_PROC)
    assert eventually(lambda: left.is_running is not HAS_PROC)
    assert other.is_running
    left.stop()
    other.stop()
