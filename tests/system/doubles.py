"""A second process of a kind beside the one that `manage.py up` runs, as on another host of the same installation."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from controlplane.embedded.processes import answers_ready, specs
from controlplane.embedded.store import accepts
from tests.system.stack import REPOSITORY, Stack

STOP_SECONDS = 60
"""Longer than any of them takes to end its work."""


@contextmanager
def double(stack: Stack, role: str, ports: Mapping[str, int] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """One more `role`, in the environment of the one that runs, ready; it must still run at the end.

    An API, and a gateway before it, listen on `ports` of their own.
    """
    env = _environment(stack, role)
    if role == "gateway" and ports:
        env |= {"HEADRACE_PORT": str(ports["gateway"]), "HEADRACE_API_URL": f"http://127.0.0.1:{ports['api']}"}
    [spec] = [each for each in specs(env, stack.data_dir, ports or {"api": 0, "gateway": 0}) if each.name == role]
    with open(stack.data_dir / "logs" / f"{role}-double.log", "ab") as log:
        process = subprocess.Popen(spec.argv, cwd=REPOSITORY, env=env, stdout=log, stderr=log)
    try:
        stack.wait(lambda: _is_ready(stack, role, process.pid, ports or {}), 60)
        yield process
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _environment(stack: Stack, role: str) -> dict[str, str]:
    pid, *_ = stack.wait(lambda: stack.pids(role))
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if pair)


def _is_ready(stack: Stack, role: str, pid: int, ports: Mapping[str, int]) -> bool:
    if role == "api":
        return accepts(ports["api"])
    if role == "gateway":
        return answers_ready(ports["gateway"])
    query = "SELECT 1 FROM observability_heartbeat WHERE role = %s AND process_id LIKE %s"
    with stack.database() as database:
        return bool(database.execute(query, [role, f"%:{pid}"]).fetchall())
