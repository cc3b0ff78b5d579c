"""How the simulated world is stored: its tables, and what a row of them means.

Times are text in UTC with microseconds, so that they compare as they are. A world is a rehearsal: one of another VERSION
is started afresh instead of being migrated.
"""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workers.providers.base import CALL_TIMEOUT_SECONDS

VERSION = 2

_TABLES = {
    "capacity": "instance_type TEXT, zone TEXT, slots INTEGER, PRIMARY KEY (instance_type, zone)",
    "schedule": "at TEXT, instance_type TEXT, zone TEXT, slots INTEGER",
    "knob": "name TEXT, instance_type TEXT, value REAL, PRIMARY KEY (name, instance_type)",
    "refusal": "subject TEXT PRIMARY KEY, kind TEXT, message TEXT",
    "instance": (
        "provider_id TEXT PRIMARY KEY, token TEXT UNIQUE, owner TEXT, instance_type TEXT, zone TEXT, launched_at TEXT, "
        "running_at TEXT, exits_at TEXT, failure TEXT, detail TEXT, gone_at TEXT"
    ),
    "call": (
        "id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, kind TEXT, instance_type TEXT, zone TEXT, token TEXT, result TEXT"
    ),
}
_INDEXES = (
    "CREATE INDEX instance_place ON instance (instance_type, zone)",
    "CREATE INDEX instance_owner ON instance (owner)",
    "CREATE INDEX instance_gone ON instance (gone_at) WHERE gone_at IS NOT NULL",
)


@dataclass(frozen=True)
class Row:
    """An instance as stored. What it is now follows from the time: it runs from `running_at`, has exited from
    `exits_at` (None = never) because of `failure` and `detail`, and ceases to exist at `gone_at` (None = never)."""

    provider_id: str
    token: str
    owner: str
    instance_type: str
    zone: str
    launched_at: datetime
    running_at: datetime
    exits_at: datetime | None = None
    failure: str = ""
    detail: str = ""
    gone_at: datetime | None = None

    def has_exited(self, now: datetime) -> bool:
        """Whether its container has ended by `now`."""
        return self.exits_at is not None and self.exits_at <= now


@dataclass(frozen=True)
class Call:
    """One line of the journal of provider calls; `result` is `launched`, `accepted` or the kind of the error."""

    at: datetime
    kind: str
    instance_type: str
    zone: str
    token: str
    result: str


def connect(path: Path | str) -> sqlite3.Connection:
    """Open the world, and make it where there is none of this VERSION. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, timeout=CALL_TIMEOUT_SECONDS, check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    # A crash of the host may take the last moments of a rehearsal; a crash of a process takes nothing.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
        _make(connection)
    connection.execute("COMMIT")
    return connection


def _make(connection: sqlite3.Connection) -> None:
    for name, columns in _TABLES.items():
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({columns})")
    for index in _INDEXES:
        connection.execute(index)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def insert(cursor: sqlite3.Cursor, row: Row) -> None:
    """Store an instance; raises sqlite3.IntegrityError for a token that is taken."""
    values = (
        *(row.provider_id, row.token, row.owner, row.instance_type, row.zone),
        *(to_text(row.launched_at), to_text(row.running_at), row.exits_at and to_text(row.exits_at)),
        *(row.failure, row.detail, row.gone_at and to_text(row.gone_at)),
    )
    cursor.execute("INSERT INTO instance VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def fetch_instances(cursor: sqlite3.Cursor) -> list[Row]:
    """The instances that the cursor's `SELECT *` found."""
    return [_row(found) for found in cursor.fetchall()]


def fetch_calls(cursor: sqlite3.Cursor) -> list[Call]:
    """The calls that the cursor's `SELECT at, kind, instance_type, zone, token, result` found."""
    return [Call(from_text(at), *rest) for at, *rest in cursor.fetchall()]


def to_text(at: datetime) -> str:
    """A time as stored."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """A stored time."""
    return datetime.fromisoformat(text)


def _row(found: tuple[str, ...]) -> Row:
    provider_id, token, owner, instance_type, zone, launched_at, running_at, exits_at, failure, detail, gone_at = found
    return Row(
        provider_id,
        token,
        owner,
        instance_type,
        zone,
        launched_at=from_text(launched_at),
        running_at=from_text(running_at),
        exits_at=from_text(exits_at) if exits_at else None,
        failure=failure,
        detail=detail,
        gone_at=from_text(gone_at) if gone_at else None,
    )
