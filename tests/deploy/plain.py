"""The Compose file's services as plain processes: their own commands and environment, on ports of this host."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane.embedded.child import Child, Spec
from tests.controlplane.routing.peers import free_port
from tests.deploy.manifests import IMAGE_DATA_DIR, ROOT, compose, environment_of, seconds

BIN = Path(sys.executable).parent

_ADDRESS = re.compile(r"\b(?:api|store|model|127\.0\.0\.1):(\d+)\b")


class Plain:
    """One project: services that call each other `localhost`, each where the file's ports lead on this host.

    `secrets` is the .env, its engines' URLs those of the tests. The gateways are told apart by their number.
    """

    def __init__(self, folder: Path, secrets: Mapping[str, str]) -> None:
        self._folder = folder
        self._secrets = secrets
        self.services: dict[str, Any] = compose(secrets)["services"]
        self._ports = {port: str(free_port()) for port in ("8001", "9000", "8080")}
        self.gateway_ports = [free_port(), free_port()]
        self.children: dict[str, Child] = {}

    def start(self, name: str, number: int = 0) -> Child:
        """Start one replica of a service and let it run."""
        label = f"{name}-{number}"
        spec = Spec(
            label,
            self._command(self.services[name]["command"], number),
            self._folder / f"{label}.log",
            self._environment(name, number),
            stop_signal=signal.SIGTERM,
            stop_seconds=seconds(self.services[name].get("stop_grace_period", "10s")),
        )
        child = self.children[label] = Child(spec)
        child.start()
        return child

    def run(self, name: str) -> None:
        """Run a service that ends, and see it end well."""
        done = self._ask(name, self._command(self.services[name]["command"], 0), 0)
        assert done.returncode == 0, done.stderr

    def probe(self, name: str, number: int = 0) -> bool:
        """What the service's own health check says."""
        argv = self.services[name]["healthcheck"]["test"]
        assert argv[0] == "CMD"
        return self._ask(name, self._command(argv[1:], number), number).returncode == 0

    def stop(self) -> None:
        """End what runs, the last first."""
        for child in reversed(self.children.values()):
            child.stop()

    def _ask(self, name: str, argv: list[str], number: int) -> "subprocess.CompletedProcess[str]":
        env = self._environment(name, number)
        return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    def _environment(self, name: str, number: int) -> dict[str, str]:
        """The service's, and of this host no more than where programs are."""
        given = environment_of(self.services[name], self._secrets)
        here = {"PATH": f"{BIN}:{os.defpath}", "HOME": str(self._folder)}
        return {**here, **{key: self._here(str(value), number) for key, value in given.items()}, "HOME": str(self._folder)}

    def _command(self, argv: Sequence[str], number: int) -> list[str]:
        program = {"python": sys.executable}.get(argv[0], str(BIN / argv[0]))
        return [program, *(self._here(word, number) for word in argv[1:])]

    def _here(self, word: str, number: int) -> str:
        """A word with the file's hosts, ports and folders as they are on this host."""
        ports = {**self._ports, "8000": str(self.gateway_ports[number])}
        if word in ports:
            return ports[word]
        word = _ADDRESS.sub(lambda found: f"localhost:{ports.get(found[1], found[1])}", word)
        word = word.replace("0.0.0.0", "127.0.0.1").replace(
            "/opt/server.py", str(ROOT / "deploy/images/reference/server.py")
        )
        return word.replace(IMAGE_DATA_DIR, str(self._folder))
