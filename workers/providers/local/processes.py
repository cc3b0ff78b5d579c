"""Reading, settling and signalling instances by their directories. Alive means that `alive.lock` is held.

Whoever changes a directory holds `host_lock`; reading needs no lock, since every file is replaced in one step.
"""

import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.providers.local import locks, shim

LOCK_TIMEOUT_SECONDS = 20.0
"""Twice what one launch may hold the lock for."""

KEPT_ENDED = 20
"""Directories of ended instances kept for their logs."""

ABANDONED = "the process that looked after it was killed"

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
    def lock(self) -> Path:
        """Held by the shim for life."""
        return self.path / "alive.lock"

    @property
    def spec(self) -> dict[str, Any] | None:
        """What was asked for, None when the directory was never completed."""
        return _read(self.path / "spec.json")

    @property
    def state(self) -> dict[str, Any] | None:
        """What the shim last said, None when it has not said anything."""
        return _read(self.path / "state.json")

    @property
    def is_alive(self) -> bool:
        """Whether a shim lives."""
        return locks.is_held(self.lock)

    @property
    def is_stopping(self) -> bool:
        """Whether the end was asked for."""
        return (self.path / "stop").exists()

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the instance is left: it never started, or it has ended as it was asked to."""
        return not self.is_alive and (self.is_stopping or self.state is None)

    @property
    def holds_slot(self) -> bool:
        """Whether it uses up capacity; a shim that has told the end is only tidying up."""
        return self.is_alive and (self.state or {}).get("status") != "exited"

    @property
    def is_abandoned(self) -> bool:
        """Whether its shim died without a word."""
        return not self.is_alive and (self.state or {}).get("status") in ("pending", "running")

    def ask_for_end(self) -> None:
        """Write down that the end is wanted, then tell the shim; one that is not listening yet reads the note.

        Raises FileNotFoundError when the directory is gone.
        """
        (self.path / "stop").touch()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without grace: the kernel kills the container with its shim."""
        self._signal(signal.SIGKILL)

    def settle(self) -> None:
        """Finish the story that a killed shim left open; the caller holds the host's lock."""
        if not self.is_abandoned:
            return
        shim.end_survivors(self.path)
        shutil.rmtree(self.path / "model", ignore_errors=True)
        shim.write_state(self.path, {"status": "exited", "detail": ABANDONED, "failure": "container_exited"})

    def _signal(self, number: int) -> None:
        # The lock is looked at after the process id was read: an id read from a live shim's file is that shim's.
        pid = (self.state or {}).get("pid")
        if pid is not None and self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def root(data_dir: Path) -> Path:
    """Where the instances' directories are."""
    return data_dir / "local" / "instances"


@contextlib.contextmanager
def host_lock(data_dir: Path) -> Iterator[None]:
    """One change at a time on this host, across all processes; raises TimeoutError."""
    root(data_dir).mkdir(parents=True, exist_ok=True)
    with locks.held(data_dir / "local" / "lock", LOCK_TIMEOUT_SECONDS):
        yield


def directory(data_dir: Path, provider_id: str) -> Directory | None:
    """The directory of this id; None for anything that is no id of this provider or is gone."""
    if not _ID.fullmatch(provider_id):
        return None
    path = root(data_dir) / provider_id
    return Directory(path) if path.is_dir() else None


def directories(data_dir: Path) -> list[Directory]:
    """All instances' directories, in the order of their ids."""
    base = root(data_dir)
    names = sorted(os.listdir(base)) if base.is_dir() else []
    return [Directory(base / name) for name in names if _ID.fullmatch(name)]


def tidy(data_dir: Path) -> None:
    """Drop what never started and, but for the newest KEPT_ENDED, what has ended; the caller holds the host's lock."""
    gone = [each for each in directories(data_dir) if each.is_gone]
    ended = sorted((each for each in gone if each.state is not None), key=lambda each: each.path.stat().st_mtime)
    keep = {each.path for each in ended[-KEPT_ENDED:]}
    for each in gone:
        if each.path not in keep:
            shutil.rmtree(each.path, ignore_errors=True)


def stop_all(data_dir: Path) -> int:
    """Ask for the end of every live instance and settle the abandoned; returns how many live ones there were."""
    with host_lock(data_dir):
        for each in directories(data_dir):
            each.settle()
        alive = [each for each in directories(data_dir) if each.is_alive]
        for each in alive:
            each.ask_for_end()
    return len(alive)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None
