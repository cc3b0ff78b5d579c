"""Kill -9, of one thing after the other, as a seed draws it."""

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from tests.perf.site import celery_worker
from tests.system.stack import REPOSITORY, STOP_SECONDS, Stack

VICTIMS = ("worker", "second worker", "valkey", "postgres")


class SecondWorker:
    """A worker beside the supervised one, started again whenever it was killed."""

    def __init__(self, stack: Stack) -> None:
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_"))},
            **json.loads((stack.data_dir / "environment.json").read_text()),
            **stack.credentials,
        }
        del self._env["AWS_ENDPOINT_URL"]
        self._log = stack.data_dir / "second-worker.log"
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with open(self._log, "ab") as log:
            command = [sys.executable, *celery_worker("workers.app", 8)]
            return subprocess.Popen(command, cwd=REPOSITORY, env=self._env, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill it and start the next."""
        self._process.kill()
        self._process.wait()
        self._process = self._start()

    def stop(self) -> None:
        """End it for good."""
        self._process.terminate()
        self._process.wait(STOP_SECONDS)


class Killings(threading.Thread):
    """Kills until told to stop, with `quiet` seconds (least, most) in between; `killed` counts by victim."""

    def __init__(self, stack: Stack, second: SecondWorker, seed: int, quiet: tuple[float, float]) -> None:
        super().__init__(name="killings", daemon=True)
        self._stack = stack
        self._second = second
        self._dice = random.Random(seed)
        self._quiet = quiet
        self._over = threading.Event()
        self.killed: Counter[str] = Counter()

    def run(self) -> None:
        while not self._over.wait(self._dice.uniform(*self._quiet)):
            victim = self._dice.choice(VICTIMS)
            if victim == "second worker":
                self._second.kill()
                self.killed[victim] += 1
            else:
                self.killed[victim] += bool(self._stack.kill(victim))

    def stop(self) -> None:
        """Let everybody live."""
        self._over.set()
        self.join()


def journal(path: Path) -> Counter[str]:
    """How often the model read a request, by InferenceId."""
    found: Counter[str] = Counter()
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if '"received"' in line:
                found[line.partition('"inference_id": "')[2].partition('"')[0]] += 1
    return found
