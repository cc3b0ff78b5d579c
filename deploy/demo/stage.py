"""What every demonstration needs: a Headrace of its own, started, known by its address and keys, and stopped."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from controlplane.core import clock
from controlplane.embedded.kept import read_secrets
from controlplane.embedded.processes import answers_ready
from deploy.demo.story import Say

START_SECONDS = 90.0


class StageFailed(Exception):
    """Headrace did not start; the message says why."""


class Stage:
    """`manage.py up` over `data_dir`, with `changes` in its environment; a context that ends it."""

    def __init__(self, data_dir: Path, changes: Mapping[str, str], say: Say) -> None:
        self.data_dir = data_dir
        self._say = say
        self._port = int(os.environ.get("HEADRACE_PORT") or _free_port())
        self._env = {
            **os.environ,
            "HEADRACE_DATA_DIR": str(data_dir),
            "HEADRACE_PORT": str(self._port),
            **changes,
        }
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def keys(self) -> dict[str, str]:
        """The bootstrap key pair, as boto3's sessions take it."""
        kept, _ = read_secrets(self.data_dir)
        return {
            "aws_access_key_id": self._env.get("HEADRACE_ACCESS_KEY_ID") or kept["access_key_id"],
            "aws_secret_access_key": self._env.get("HEADRACE_SECRET_ACCESS_KEY") or kept["secret_access_key"],
        }

    def __enter__(self) -> "Stage":
        self.data_dir.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._supervisor is not None:
            self._supervisor.terminate()
            self._supervisor.wait()

    def start(self) -> None:
        """Start it and wait until it is ready; raises StageFailed."""
        self._say(f"Starting Headrace for the demonstration (its data: {self.data_dir}).")
        self._supervisor = subprocess.Popen([sys.executable, "manage.py", "up"], env=self._env, stdout=subprocess.DEVNULL)
        pause, started = threading.Event(), clock.monotonic()
        while not answers_ready(self._port):
            if self._supervisor.poll() is not None:
                raise StageFailed("Headrace did not start; its reason stands above.")
            if clock.monotonic() - started > START_SECONDS:
                raise StageFailed(f"Headrace was not ready within {START_SECONDS:.0f} s; see the logs.")
            pause.wait(0.1)
        self._say(f"Up after {clock.monotonic() - started:.1f} s. Now unmodified clients speak to it.\n")

    def manage(self, *arguments: str) -> str:
        """What a management command prints; raises CalledProcessError."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, env=self._env, check=True, capture_output=True, text=True).stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
