"""The engine simulator as a process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

from controlplane.routing.table import Target
from tests.controlplane.gateway.site import PATIENCE_SECONDS, REPOSITORY, START_SECONDS, answers, wait_for
from tests.controlplane.routing.peers import free_port

SERVER = REPOSITORY / "deploy" / "images" / "engine" / "server.py"


@dataclass(frozen=True)
class EngineProcess:
    """A running engine that keeps a journal."""

    instance_id: str
    address: str
    journal_path: Path

    @property
    def target(self) -> Target:
        return Target(self.instance_id, self.address, "ml.g5.2xlarge", False)

    def requests(self, path: str) -> int:
        """How many requests for a path it has read."""
        if not self.journal_path.exists():
            return 0
        return sum(json.loads(line)["path"] == path for line in self.journal_path.read_text().splitlines())

    def page(self, path: str) -> str:
        """What it says at a path."""
        with urlopen(f"http://{self.address}{path}", timeout=PATIENCE_SECONDS) as answer:
            return str(answer.read().decode())


@contextmanager
def engine(folder: Path, **env: str) -> Iterator[EngineProcess]:
    """A running engine with these settings."""
    port, name = free_port(), uuid4()
    journal = folder / f"{name}.jsonl"
    own = {"SAGEMAKER_BIND_TO_PORT": str(port), "ENGINE_SINK": str(journal), "PATH": os.defpath}
    with subprocess.Popen([sys.executable, "-S", "-E", SERVER], env={**own, **env}) as process:
        try:
            wait_for(lambda: answers(port, "/ping"), START_SECONDS)
            yield EngineProcess(str(name), f"127.0.0.1:{port}", journal)
        finally:
            process.kill()
