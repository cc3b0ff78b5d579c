"""Reading and signalling instances by their directories. Alive means that `alive.lock` is held."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ID = re.compile(r"local-[0-9a-f]{24}")


@dataclass(frozen=True)
class Directory:
    """An instance's directory."""

    path: Path

    @property
    def id(self) -> str:
        """The provider id, which is the directory's name."""
        return self.path.name

    @property
    def spec(self) -> dict[str, Any] | None:
        """What was asked for, None when the directory was never completed."""
        return _read(self.path / "spec.json")

    @property
    def state(self) -> dict[str, Any] | None:
        """What the shim last said, None when it never started."""
        return _read(self.path / "state.json")

    @property
    def is_alive(self) -> bool:
        """Whether a shim holds the lock."""
        try:
            with open(self.path / "alive.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @property
    def is_stopping(self) -> bool:
        """Whether the end was asked for."""
        return (self.path / "stop").exists()

    def ask_for_end(self) -> None:
        """Write down that the end is wanted, and tell the shim; the note makes it hold even if the signal is lost."""
        (self.path / "stop").touch()
        state = self.state
        if state is not None and self.is_alive:
            _signal(state["pid"], signal.SIGTERM)

    def remove(self) -> None:
        """Delete the directory."""
        shutil.rmtree(self.path, ignore_errors=True)


def root(data_dir: Path) -> Path:
    """Where the instances' directories are."""
    return data_dir / "local" / "instances"


def directory(data_dir: Path, provider_id: str) -> Directory | None:
    """The directory of this id; None for anything that is no id of this provider or is gone."""
    if not _ID.fullmatch(provider_id):
        return None
    path = root(data_dir) / provider_id
    return Directory(path) if path.is_dir() else None


def directories(data_dir: Path) -> Iterator[Directory]:
    """All instances' directories, oldest id first."""
    base = root(data_dir)
    names = sorted(os.listdir(base)) if base.is_dir() else []
    return (Directory(base / name) for name in names if _ID.fullmatch(name))


def stop_all(data_dir: Path) -> int:
    """Ask for the end of every live instance; returns how many there were."""
    alive = [each for each in directories(data_dir) if each.is_alive]
    for each in alive:
        each.ask_for_end()
    return len(alive)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
