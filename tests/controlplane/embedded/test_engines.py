"""The three engines for real: crashes lose nothing, and both kinds of user can run them."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from controlplane.embedded import engines, postgres
from controlplane.embedded.child import Child

HAS_PROC = Path("/proc").is_dir()
"""A process is known by its arguments there, and to nobody on a system without it."""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can pass through, as a checkout outside a private home is."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def count(url: str) -> int:
    """Add a row and count them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (id serial)")
        connection.execute("INSERT INTO kept DEFAULT VALUES")
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    return int(row[0]) if row else 0


def test_committed_rows_survive_kill_9_of_the_database(reachable: Path) -> None:
    plan = engines.plan(reachable / "data", {"HEADRACE_REDIS_URL": "unused", "HEADRACE_S3_ENDPOINT_URL": "unused"})
    child = Child(plan.specs[0])
    for expected in (1, 2):
        child.start()
        child.wait_ready(threading.Event())
        plan.finish("postgres")
        assert count(plan.database_url) == expected
        os.kill(child.pid, signal.SIGKILL)
        assert child.process is not None
        child.process.wait(30)


def test_wrong_password_is_refused(reachable: Path) -> None:
    with engines.running(reachable / "data", {"HEADRACE_REDIS_URL": "x", "HEADRACE_S3_ENDPOINT_URL": "x"}) as running:
        wrong = running.database_url.replace(running.postgres_password, "guess")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)


def test_it_runs_from_a_private_home(reachable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root hands PostgreSQL to another user, who cannot enter the home; anybody else runs it as themselves.
    monkeypatch.setattr(postgres, "PRIVATE_ROOT", reachable / "private-root")
    data_dir = reachable / "home" / "data"
    data_dir.mkdir(parents=True)
    (reachable / "home").chmod(0o700)
    env = {"HEADRACE_REDIS_URL": "unused", "HEADRACE_S3_ENDPOINT_URL": "unused"}
    for expected in (1, 2):
        with engines.running(data_dir, env) as running:
            assert count(running.database_url) == expected
    shutil.rmtree(data_dir)
    with engines.running(data_dir, env) as running:
        assert count(running.database_url) == 1, "a new data directory must not meet the data of the removed one"


@pytest.mark.parametrize("is_over_this_data", [False, True])
def test_pid_file_is_dropped_unless_its_process_serves_this_data(tmp_path: Path, is_over_this_data: bool) -> None:
    (tmp_path / "PG_VERSION").touch()
    place = postgres.Place(binaries=tmp_path, data=tmp_path, uid=None)
    arguments = ["postgres", "-D", str(tmp_path) if is_over_this_data else "/elsewhere"]
    program = ["/bin/sh", "-c", "sleep 60; :", *arguments]
    with subprocess.Popen(program, start_new_session=True) as process:
        # The kernel publishes the arguments a moment after the program was started.
        while HAS_PROC and not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"/bin/sh"):
            assert process.poll() is None
        (tmp_path / "postmaster.pid").write_text(f"{process.pid}\n{tmp_path}\n")
        postgres.prepare(place, 5432, "", tmp_path / "log").before_start()
        os.killpg(process.pid, signal.SIGKILL)
    assert (tmp_path / "postmaster.pid").exists() is (is_over_this_data and HAS_PROC)
