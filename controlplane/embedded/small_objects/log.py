"""The log: small objects that were put and may not be on disk as files yet. A SQLite database, for one process.

Entering and taking out costs no disk; `commit` waits for it, in a thread of its own, while the next entries gather.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TABLE = """
CREATE TABLE IF NOT EXISTS put (
    number INTEGER PRIMARY KEY, bucket TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, about BLOB NOT NULL
)
"""
_ENTER = "INSERT INTO put (number, bucket, key, body, about) VALUES (?, ?, ?, ?, ?)"
_SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "locking_mode = EXCLUSIVE")
"""One sync a commit, and nobody else opens the file."""

LogFailed = sqlite3.Error
"""What it raises: the disk is full or broken, mostly."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An object: the bytes of both of its files. Numbers rise in the order in which objects were put."""

    number: int
    bucket: str
    key: str
    body: bytes
    about: bytes


class PutLog:
    """The entries kept in `file`, which is made where there is none. Raises LogFailed."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        for setting in _SETTINGS:
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute(_TABLE)
        self._database.execute("BEGIN EXCLUSIVE")  # the first change is what takes the lock, which is then kept
        self._database.execute("COMMIT")

    def entries(self) -> Iterator[Entry]:
        """All that it holds, oldest first."""
        for row in self._database.execute("SELECT number, bucket, key, body, about FROM put ORDER BY number"):
            yield Entry(*row)

    def change(self, entered: Iterable[Entry], taken_out: Iterable[int], settled: int) -> None:
        """Enter these, then take those numbers out, and all up to `settled`; to be followed by `commit` or `undo`."""
        self._database.execute("BEGIN")
        rows = [(entry.number, entry.bucket, entry.key, entry.body, entry.about) for entry in entered]
        self._database.executemany(_ENTER, rows)
        self._database.executemany("DELETE FROM put WHERE number = ?", [(number,) for number in taken_out])
        if settled:
            self._database.execute("DELETE FROM put WHERE number <= ?", [settled])

    def commit(self) -> None:
        """Make the changes last; blocks until they are on disk."""
        self._database.execute("COMMIT")

    def undo(self) -> None:
        """Take the changes back."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    def clear(self) -> None:
        """Forget everything."""
        self._database.execute("DELETE FROM put")

    def close(self) -> None:
        """Close the file."""
        self._database.close()
