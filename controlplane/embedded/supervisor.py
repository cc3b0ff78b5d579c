"""The supervisor behind `manage.py up`: starts everything in order, keeps it running, stops it in reverse order.

    lock the data directory --> end leftovers --> engines --> migrate, bootstrap --> processes --> watch ... --> stop

A child that dies is started again after a pause that doubles from 0.2 s to 10 s and is forgotten once it has run for
10 s. On Linux the supervisor adopts the orphans of its children (a local instance whose launcher ended), so that none
stays behind as a zombie.
"""

import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.core import clock
from controlplane.embedded import engines as embedded
from controlplane.embedded import processes
from controlplane.embedded.child import Child, StartFailed, Stopped
from controlplane.embedded.kept import is_free, mark_announced, read_ports, read_secrets, write_environment
from controlplane.embedded.leftovers import end_leftovers

WATCH_SECONDS = 0.1
PAUSE_FIRST_SECONDS = 0.2
PAUSE_LAST_SECONDS = 10.0
STEADY_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36

Say = Callable[[str], None]


@dataclass
class _Watched:
    """A child, how often it died lately, and when it may be started again (monotonic)."""

    child: Child
    deaths: int = 0
    start_at: float | None = None


class AlreadyRunning(Exception):
    """Another supervisor holds the data directory."""


class Supervisor:
    """One run of everything over one data directory."""

    def __init__(self, data_dir: Path, env: Mapping[str, str], say: Say) -> None:
        self._data_dir = data_dir
        self._env = env
        self._say = say
        self._stopping = threading.Event()
        self._watched: list[_Watched] = []
        self.environment: dict[str, str] = {}

    def stop(self) -> None:
        """Let `run` end; safe to call from a signal handler."""
        self._stopping.set()

    def run(self, banner: Callable[[Mapping[str, str], bool], bool]) -> None:
        """Start, watch until stopped, stop.

        `banner` is called once everything answers, with the environment and whether the keys are still to be shown;
        it says whether it showed them.
        """
        self._data_dir.mkdir(parents=True, exist_ok=True)
        with open(self._data_dir / "lock", "w") as lock:
            _take(lock.fileno(), self._data_dir)
            _adopt_orphans()
            count = end_leftovers(self._data_dir)
            if count:
                self._say(f"ended {count} process(es) that an earlier run left behind")
            try:
                keys_are_new = self._start()
                if banner(self.environment, keys_are_new):
                    mark_announced(self._data_dir)
                self._watch()
            except Stopped:
                self._say("interrupted while starting")
            finally:
                self._stop_all()

    def _start(self) -> bool:
        """Start everything; whether nobody was shown the keys yet."""
        port = int(self._env.get("HEADRACE_PORT") or 8000)
        _check_free(port)
        kept, keys_are_new = read_secrets(self._data_dir)
        self._say("preparing the engines (the first time takes a few seconds)" if keys_are_new else "starting the engines")
        engines = embedded.plan(self._data_dir, self._env)
        ports = {
            "gateway": port,
            **read_ports(self._data_dir, ["api"]),
        }
        self.environment = processes.environment(engines, kept, self._env, self._data_dir, ports)
        write_environment(self._data_dir, self.environment)
        for spec in engines.specs:
            self._start_one(Child(spec))
            engines.finish(spec.name)
        self._command("migrate", "migrate", "--verbosity", "0")
        self._command("bootstrap", "bootstrap")
        children = [Child(spec) for spec in processes.specs(self.environment, self._data_dir, ports)]
        for child in children:  # all at once: each takes a second or two to import its code
            child.start()
            self._watched.append(_Watched(child))
        for child in children:
            self._say(f"{child.spec.name:<10} ready in {child.wait_ready(self._stopping):.1f} s")
        return keys_are_new

    def _start_one(self, child: Child) -> None:
        child.start()
        self._watched.append(_Watched(child))
        self._say(f"{child.spec.name:<10} ready in {child.wait_ready(self._stopping):.1f} s")

    def _command(self, name: str, *arguments: str) -> None:
        """Run a management command to its end."""
        started = clock.monotonic()
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        if self._stopping.is_set():  # Ctrl-C reaches the command as well, so its exit code says nothing
            raise Stopped
        if done.returncode:
            raise StartFailed(f"manage.py {' '.join(arguments)} failed:\n{done.stderr or done.stdout}")
        self._say(f"{name:<10} done in {clock.monotonic() - started:.1f} s")

    def _watch(self) -> None:
        while not self._stopping.wait(WATCH_SECONDS):
            for watched in self._watched:
                self._tend(watched)
            _reap_orphans({watched.child.pid for watched in self._watched})

    def _tend(self, watched: _Watched) -> None:
        """Start a child again that died, once its pause is over."""
        child, now = watched.child, clock.monotonic()
        if child.is_running:
            if now - child.started_at > STEADY_SECONDS:
                watched.deaths = 0
        elif watched.start_at is None:
            pause = min(PAUSE_FIRST_SECONDS * 2**watched.deaths, PAUSE_LAST_SECONDS)
            watched.deaths, watched.start_at = watched.deaths + 1, now + pause
            child.kill_group()
            code = child.process.returncode if child.process else 0
            self._say(f"{child.spec.name} ended ({_ended(code)}); started again in {pause:.1f} s. Log: {child.spec.log}")
        elif now >= watched.start_at:
            watched.start_at = None
            child.start()

    def _stop_all(self) -> None:
        self._say("stopping")
        for gateway in (each.child for each in self._watched if each.child.spec.name.startswith("gateway")):
            gateway.ask_to_stop()  # each takes the time that its calls take
        while self._watched:
            self._watched.pop().child.stop()
        stop_instances = [sys.executable, "-m", "workers.providers.local.stop", str(self._data_dir)]
        subprocess.run(stop_instances, env=self.environment or dict(self._env), check=False)
        _reap_orphans(set())
        self._say("stopped")


def _ended(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _take(descriptor: int, data_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise AlreadyRunning(
            f"Headrace already runs over {data_dir}. Stop it first, or set HEADRACE_DATA_DIR and HEADRACE_PORT for a "
            "second one."
        ) from error


def _check_free(port: int) -> None:
    """Asked before anything starts: whatever listens there would answer `/readyz` in place of the gateway."""
    if not is_free(port):
        raise StartFailed(f"Port {port} belongs to another program. Stop that one, or set HEADRACE_PORT to a free port.")


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _reap_orphans(own: set[int]) -> None:
    """Reap adopted processes that ended; own children are reaped by whoever waits for them."""
    for pid in _children() - own:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue


def _children() -> set[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in path.read_text().split()} if path.exists() else set()
