"""`manage.py up` as its user meets it, where it must refuse or stop early."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.routing.peers import START_SECONDS, free_port

ROOT = Path(__file__).parents[3]


def up(data_dir: Path, port: int, store_url: str = "") -> "subprocess.Popen[str]":
    """Start it over an embedded store, or none when `store_url` names one; nothing listens at the other addresses."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")},
        "HEADRACE_DATA_DIR": str(data_dir),
        "HEADRACE_PORT": str(port),
        "HEADRACE_DATABASE_URL": "postgresql://nobody:x@127.0.0.1:1/none",
        "HEADRACE_REDIS_URL": "redis://127.0.0.1:1/0",
        "HEADRACE_S3_ENDPOINT_URL": store_url,
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "manage.py", "up"]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, up(tmp_path, server.getsockname()[1]) as process:
        output, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1
    assert "belongs to another program" in errors
    assert "ready in" not in output


def test_a_second_run_over_one_data_directory_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with up(tmp_path, free_port()) as process:
            _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1
    assert "already runs" in errors


@pytest.mark.parametrize("store_url", ["", "http://127.0.0.1:1"], ids=["in an engine", "in a migration"])
def test_an_interrupted_start_stops_what_it_started_and_blames_nobody(tmp_path: Path, store_url: str) -> None:
    with up(tmp_path, free_port(), store_url) as process:
        assert process.stdout is not None
        assert "preparing" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=START_SECONDS)
    assert "stopped" in output
    assert "interrupted while starting" in output
    assert process.returncode == 0, errors
