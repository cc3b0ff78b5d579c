"""The world behind the simulated provider: types with slots, instances that boot, faults that wait for their call.

State stands in SQLite, so that several processes share it and a crash loses nothing. Time comes from the clock alone, so
a virtual clock boots instances and plays schedules. Knobs (`set_knob`) hold numbers:

    boot_seconds          how long an instance takes to RUN
    consistency_seconds   how long a listing may miss a new instance
    throttle              the next N launch calls are throttled
    lose_replies          the next N launches happen, their answers are lost
    lose_requests         the next N launches do not happen, and nobody is told
    zombie_terminates     the next N terminates are accepted and do nothing
    is_sick               1 = no instance answers /ping
"""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from controlplane.core import clock

UNLIMITED = 1_000_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS capacity (instance_type TEXT, zone TEXT, slots INTEGER, PRIMARY KEY (instance_type, zone));
CREATE TABLE IF NOT EXISTS schedule (at TEXT, instance_type TEXT, zone TEXT, slots INTEGER);
CREATE TABLE IF NOT EXISTS knob (name TEXT PRIMARY KEY, value REAL);
CREATE TABLE IF NOT EXISTS refusal (instance_type TEXT PRIMARY KEY, kind TEXT, message TEXT);
CREATE TABLE IF NOT EXISTS instance (
    provider_id TEXT PRIMARY KEY, token TEXT UNIQUE, owner TEXT, instance_type TEXT, zone TEXT, launched_at TEXT,
    running_at TEXT, status TEXT, detail TEXT);
CREATE TABLE IF NOT EXISTS call (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, kind TEXT, instance_type TEXT, zone TEXT, token TEXT, result TEXT);
"""


@dataclass(frozen=True)
class Row:
    """An instance as stored; `status` is `launched`, `exited` or `stopping` (what it is now also depends on the time)."""

    provider_id: str
    token: str
    owner: str
    instance_type: str
    zone: str
    launched_at: datetime
    running_at: datetime
    status: str
    detail: str


@dataclass(frozen=True)
class Call:
    """One line of the journal of provider calls."""

    at: datetime
    kind: str
    instance_type: str
    zone: str
    token: str
    result: str


class World:
    """The simulated world; every method is one transaction."""

    def __init__(self, path: Path | str, default_capacity: dict[str, int] | None = None) -> None:
        self._default_capacity = default_capacity
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """One writer at a time, across threads and processes."""
        with self._lock:
            cursor = self._connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
            except BaseException:
                cursor.execute("ROLLBACK")
                raise
            cursor.execute("COMMIT")

    def set_capacity(self, instance_type: str, slots: int, zone: str = "*") -> None:
        """From now on `slots` instances of this type may live in `zone` (`*` = in each)."""
        with self.transaction() as cursor:
            cursor.execute("INSERT OR REPLACE INTO capacity VALUES (?, ?, ?)", (instance_type, zone, slots))

    def schedule_capacity(self, at: datetime, instance_type: str, slots: int, zone: str = "*") -> None:
        """As `set_capacity`, once the clock has passed `at`."""
        with self.transaction() as cursor:
            cursor.execute("INSERT INTO schedule VALUES (?, ?, ?, ?)", (at.isoformat(), instance_type, zone, slots))

    def set_knob(self, name: str, value: float) -> None:
        """Turn a knob; see the module docstring."""
        with self.transaction() as cursor:
            cursor.execute("INSERT OR REPLACE INTO knob VALUES (?, ?)", (name, value))

    def knob(self, name: str, default: float = 0.0) -> float:
        """What a knob is at."""
        with self.transaction() as cursor:
            return _knob(cursor, name, default)

    def refuse(self, instance_type: str, kind: str, message: str) -> None:
        """Answer every launch of this type with a refusal of this kind; an empty kind ends that."""
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM refusal WHERE instance_type = ?", (instance_type,))
            if kind:
                cursor.execute("INSERT INTO refusal VALUES (?, ?, ?)", (instance_type, kind, message))

    def refusal(self, cursor: sqlite3.Cursor, instance_type: str) -> tuple[str, str] | None:
        """The standing refusal of this type, if any."""
        cursor.execute("SELECT kind, message FROM refusal WHERE instance_type = ?", (instance_type,))
        found: tuple[str, str] | None = cursor.fetchone()
        return found

    def take(self, cursor: sqlite3.Cursor, name: str) -> bool:
        """Use up one of the N calls that a counting knob is set to; False when none is left."""
        cursor.execute("UPDATE knob SET value = value - 1 WHERE name = ? AND value >= 1", (name,))
        return cursor.rowcount > 0

    def free_slots(self, cursor: sqlite3.Cursor, instance_type: str, zone: str) -> int:
        """How many more instances of this type may be launched in this zone now."""
        self._play_schedule(cursor)
        cursor.execute(
            "SELECT slots FROM capacity WHERE instance_type = ? AND zone IN (?, '*') ORDER BY zone DESC LIMIT 1",
            (instance_type, zone),
        )
        found = cursor.fetchone()
        slots = found[0] if found else self._default_slots(instance_type)
        cursor.execute(
            "SELECT count(*) FROM instance WHERE instance_type = ? AND zone = ? AND status != 'exited'",
            (instance_type, zone),
        )
        return int(slots) - int(cursor.fetchone()[0])

    def _default_slots(self, instance_type: str) -> int:
        if self._default_capacity is None:
            return UNLIMITED
        return self._default_capacity.get(instance_type, 0)

    def _play_schedule(self, cursor: sqlite3.Cursor) -> None:
        now = clock.now().isoformat()
        cursor.execute("SELECT instance_type, zone, slots FROM schedule WHERE at <= ? ORDER BY at", (now,))
        for row in cursor.fetchall():
            cursor.execute("INSERT OR REPLACE INTO capacity VALUES (?, ?, ?)", row)
        cursor.execute("DELETE FROM schedule WHERE at <= ?", (now,))

    def add(self, cursor: sqlite3.Cursor, row: Row) -> None:
        """Let an instance exist."""
        cursor.execute(
            "INSERT INTO instance VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row.provider_id,
                row.token,
                row.owner,
                row.instance_type,
                row.zone,
                row.launched_at.isoformat(),
                row.running_at.isoformat(),
                row.status,
                row.detail,
            ),
        )

    def find(self, cursor: sqlite3.Cursor, column: str, value: str) -> list[Row]:
        """Instances by `token`, `provider_id` or `owner`."""
        queries = {
            "token": "SELECT * FROM instance WHERE token = ?",
            "provider_id": "SELECT * FROM instance WHERE provider_id = ?",
            "owner": "SELECT * FROM instance WHERE owner = ? ORDER BY launched_at",
        }
        cursor.execute(queries[column], (value,))
        return [_row(found) for found in cursor.fetchall()]

    def remove(self, cursor: sqlite3.Cursor, provider_id: str) -> None:
        """Let an instance be gone."""
        cursor.execute("DELETE FROM instance WHERE provider_id = ?", (provider_id,))

    def fail(self, provider_id: str, detail: str) -> None:
        """Let an instance die."""
        with self.transaction() as cursor:
            cursor.execute("UPDATE instance SET status = 'exited', detail = ? WHERE provider_id = ?", (detail, provider_id))

    def boot_time(self, cursor: sqlite3.Cursor) -> timedelta:
        """How long an instance launched now takes to run."""
        return timedelta(seconds=_knob(cursor, "boot_seconds", 0.0))

    def write_down(self, cursor: sqlite3.Cursor, kind: str, instance_type: str, zone: str, token: str, what: str) -> None:
        """Add a line to the journal of calls."""
        cursor.execute(
            "INSERT INTO call (at, kind, instance_type, zone, token, result) VALUES (?, ?, ?, ?, ?, ?)",
            (clock.now().isoformat(), kind, instance_type, zone, token, what),
        )

    def calls(self, kind: str = "launch") -> list[Call]:
        """The journal of calls of one kind, in order."""
        with self.transaction() as cursor:
            cursor.execute(
                "SELECT at, kind, instance_type, zone, token, result FROM call WHERE kind = ? ORDER BY id", (kind,)
            )
            return [Call(datetime.fromisoformat(at), *rest) for at, *rest in cursor.fetchall()]

    def live(self) -> list[Row]:
        """Every instance there is."""
        with self.transaction() as cursor:
            cursor.execute("SELECT * FROM instance ORDER BY launched_at")
            return [_row(found) for found in cursor.fetchall()]


def read_default_capacity(text: str) -> dict[str, int] | None:
    """HEADRACE_SIMULATED_CAPACITY: a JSON object type -> slots; unset = every type without limit."""
    return {name: int(slots) for name, slots in json.loads(text).items()} if text else None


def _knob(cursor: sqlite3.Cursor, name: str, default: float) -> float:
    cursor.execute("SELECT value FROM knob WHERE name = ?", (name,))
    found = cursor.fetchone()
    return float(found[0]) if found else default


def _row(found: tuple[str, str, str, str, str, str, str, str, str]) -> Row:
    provider_id, token, owner, instance_type, zone, launched_at, running_at, status, detail = found
    return Row(
        provider_id,
        token,
        owner,
        instance_type,
        zone,
        datetime.fromisoformat(launched_at),
        datetime.fromisoformat(running_at),
        status,
        detail,
    )
