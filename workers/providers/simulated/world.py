"""The world behind the simulated provider: types with slots, instances that boot, faults that wait for their call.

State stands in SQLite, so that several processes share it and a crash loses nothing. Time comes from the clock alone, so
a virtual clock boots instances and plays schedules. Knobs (`set_knob`, for one type or for all) hold numbers:

    boot_seconds          how long an instance takes to RUN
    stop_seconds          how long an instance is STOPPING
    consistency_seconds   how long a listing may miss a new instance (for all types only)
    throttle              the next N launch calls are throttled
    throttle_listings     the next N calls of describe, find or list_owned are throttled (for all types only)
    lose_replies          the next N launches happen, their answers are lost
    lose_requests         the next N launches do not happen, and nobody is told
    exit_at_start         the next N launched instances exit once they would run
    lack_model_data       the next N launched instances exit for want of their model's data
    zombie_terminates     the next N terminates are accepted and do nothing
    is_sick               1 = no instance answers /ping

A counting knob set for a type is used up before the one for all types.
"""

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from controlplane.core import clock
from workers.providers.base import StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.simulated import storage
from workers.providers.simulated.schedule import CapacityChange
from workers.providers.simulated.storage import Call, Row, to_text
from workers.providers.slots import check_slots, read_slots

UNLIMITED = 1_000_000
ALL = "*"
CALLS_KEPT = 100_000
"""The journal of calls forgets what is older, so that a world can run for months."""

KNOBS = frozenset(
    {
        *("boot_seconds", "stop_seconds", "consistency_seconds", "throttle", "throttle_listings", "lose_replies"),
        *("lose_requests", "exit_at_start", "lack_model_data", "zombie_terminates", "is_sick"),
    }
)


class World:
    """The simulated world. Methods without a cursor are one transaction each; those with one are parts of the caller's."""

    def __init__(self, path: Path | str, default_capacity: dict[str, int] | None = None) -> None:
        """`default_capacity` holds for types whose capacity nobody set; None = no limit. Raises sqlite3.Error."""
        self._default_capacity = default_capacity
        self._lock = threading.Lock()
        self._connection = storage.connect(path)

    def close(self) -> None:
        """Let go of the store; a world in memory is lost."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """One writer at a time, across threads and processes; what the time has brought about is true inside.

        Raises THROTTLED when the store cannot be had; nothing has happened then.
        """
        with self._lock:
            cursor = self._connection.cursor()
            try:
                cursor.execute("BEGIN IMMEDIATE")
                _catch_up(cursor)
                yield cursor
                cursor.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise ProviderError(ErrorKind.THROTTLED, f"The simulated world is busy: {error}.") from error
            finally:
                if self._connection.in_transaction:
                    self._connection.rollback()
                cursor.close()

    def set_capacity(self, instance_type: str, slots: int, zone: str = ALL) -> None:
        """From now on `slots` instances of this type may live in `zone` (`*` = in each); raises ValueError below 0."""
        check_slots({instance_type: slots}, "the capacity")
        with self.transaction() as cursor:
            _set_capacity(cursor, instance_type, zone, slots)

    def schedule_capacity(self, at: datetime, instance_type: str, slots: int, zone: str = ALL) -> None:
        """As `set_capacity`, once the clock has passed `at`."""
        self.play([CapacityChange(at, instance_type, slots, zone)])

    def play(self, changes: Iterable[CapacityChange]) -> None:
        """Let these changes of capacity happen when their time comes."""
        rows = [(to_text(each.at), each.instance_type, each.zone, each.slots) for each in changes]
        with self.transaction() as cursor:
            cursor.executemany("INSERT INTO schedule VALUES (?, ?, ?, ?)", rows)

    def set_knob(self, name: str, value: float, instance_type: str = ALL) -> None:
        """Turn a knob; see the module docstring. Raises ValueError for a knob there is not."""
        if name not in KNOBS:
            raise ValueError(f"There is no knob {name!r}; there are {', '.join(sorted(KNOBS))}.")
        with self.transaction() as cursor:
            cursor.execute("INSERT OR REPLACE INTO knob VALUES (?, ?, ?)", (name, instance_type, value))

    def knob(self, name: str, instance_type: str = ALL) -> float:
        """What a knob is at; 0 where nobody turned it."""
        with self.transaction() as cursor:
            return read_knob(cursor, name, instance_type)

    def refuse(self, subject: str, kind: str, message: str) -> None:
        """Answer every launch of this instance type or this image with a refusal of `kind`; an empty one ends that."""
        with self.transaction() as cursor:
            cursor.execute("DELETE FROM refusal WHERE subject = ?", (subject,))
            if kind:
                cursor.execute("INSERT INTO refusal VALUES (?, ?, ?)", (subject, ErrorKind(kind).value, message))

    def fail(self, provider_id: str, detail: str, failure: StartFailure = StartFailure.CONTAINER_EXITED) -> None:
        """Let an instance die now."""
        with self.transaction() as cursor:
            cursor.execute(
                "UPDATE instance SET exits_at = ?, failure = ?, detail = ? WHERE provider_id = ?",
                (to_text(clock.now()), failure.value, detail, provider_id),
            )

    def interrupt(self, provider_id: str, at: datetime, notice: str = "the market takes it back") -> None:
        """Announce that an instance will be taken away at this time, as a spot market or a retirement does."""
        with self.transaction() as cursor:
            cursor.execute(
                "UPDATE instance SET exits_at = ?, failure = '', detail = ? WHERE provider_id = ?",
                (to_text(at), notice, provider_id),
            )

    def live(self) -> list[Row]:
        """Every instance there is, in the order of their launches."""
        with self.transaction() as cursor:
            cursor.execute("SELECT * FROM instance ORDER BY launched_at, rowid")
            return storage.fetch_instances(cursor)

    def calls(self, kind: str = "launch") -> list[Call]:
        """The journal of calls of one kind, in order."""
        with self.transaction() as cursor:
            columns = "at, kind, instance_type, zone, token, result"
            cursor.execute(f"SELECT {columns} FROM call WHERE kind = ? ORDER BY id", (kind,))  # noqa: S608 - constant
            return storage.fetch_calls(cursor)

    def free_slots(self, cursor: sqlite3.Cursor, instance_type: str, zone: str) -> int:
        """How many more instances of this type may be launched in this zone now; below 0 after capacity was lowered."""
        cursor.execute(
            "SELECT slots FROM capacity WHERE instance_type = ? AND zone IN (?, '*') ORDER BY zone DESC LIMIT 1",
            (instance_type, zone),
        )
        found = cursor.fetchone()
        slots = int(found[0]) if found else self._default_slots(instance_type)
        cursor.execute(
            "SELECT count(*) FROM instance WHERE instance_type = ? AND zone = ? AND (exits_at IS NULL OR exits_at > ?)",
            (instance_type, zone, to_text(clock.now())),
        )
        return slots - int(cursor.fetchone()[0])

    def named_types(self, cursor: sqlite3.Cursor) -> set[str]:
        """The types whose free slots may differ from those of a type that nobody named and nobody runs."""
        cursor.execute("SELECT instance_type FROM capacity UNION SELECT instance_type FROM instance")
        return {str(row[0]) for row in cursor.fetchall()} | set(self._default_capacity or {})

    def _default_slots(self, instance_type: str) -> int:
        if self._default_capacity is None:
            return UNLIMITED
        return self._default_capacity.get(instance_type, 0)


def read_default_capacity(text: str) -> dict[str, int] | None:
    """HEADRACE_SIMULATED_CAPACITY: a JSON object type -> slots; unset = every type without limit. Raises ValueError."""
    return read_slots(text, "HEADRACE_SIMULATED_CAPACITY") if text else None


def read_knob(cursor: sqlite3.Cursor, name: str, instance_type: str = ALL) -> float:
    """What a knob is at for this type: its own setting, else the one for all types, else 0."""
    cursor.execute(
        "SELECT value FROM knob WHERE name = ? AND instance_type IN (?, '*') ORDER BY instance_type = '*' LIMIT 1",
        (name, instance_type),
    )
    found = cursor.fetchone()
    return float(found[0]) if found else 0.0


def take(cursor: sqlite3.Cursor, name: str, instance_type: str = ALL) -> bool:
    """Use up one of the N calls that a counting knob is set to; False when none is left."""
    for subject in dict.fromkeys((instance_type, ALL)):
        cursor.execute(
            "UPDATE knob SET value = value - 1 WHERE name = ? AND instance_type = ? AND value >= 1", (name, subject)
        )
        if cursor.rowcount > 0:
            return True
    return False


def find_refusal(cursor: sqlite3.Cursor, instance_type: str, image: str) -> ProviderError | None:
    """The standing refusal of this type or this image, if any."""
    cursor.execute("SELECT kind, message FROM refusal WHERE subject IN (?, ?)", (instance_type, image))
    found = cursor.fetchone()
    return ProviderError(ErrorKind(found[0]), found[1]) if found else None


def find_instances(cursor: sqlite3.Cursor, column: str, value: str) -> list[Row]:
    """Instances by `token`, `provider_id` or `owner`."""
    queries = {
        "token": "SELECT * FROM instance WHERE token = ?",
        "provider_id": "SELECT * FROM instance WHERE provider_id = ?",
        "owner": "SELECT * FROM instance WHERE owner = ? ORDER BY launched_at, rowid",
    }
    cursor.execute(queries[column], (value,))
    return storage.fetch_instances(cursor)


def stop_instance(cursor: sqlite3.Cursor, row: Row) -> None:
    """Let an instance be gone once it has stopped; one that is stopping goes on as it does."""
    stop_seconds = 0.0 if row.has_exited(clock.now()) else read_knob(cursor, "stop_seconds", row.instance_type)
    gone_at = clock.now() + timedelta(seconds=stop_seconds)
    cursor.execute(
        "UPDATE instance SET gone_at = coalesce(gone_at, ?) WHERE provider_id = ?", (to_text(gone_at), row.provider_id)
    )
    _catch_up(cursor)


def write_down(cursor: sqlite3.Cursor, call: Call) -> None:
    """Add a line to the journal of calls, and drop the oldest when there are too many."""
    cursor.execute(
        "INSERT INTO call (at, kind, instance_type, zone, token, result) VALUES (?, ?, ?, ?, ?, ?)",
        (to_text(call.at), call.kind, call.instance_type, call.zone, call.token, call.result),
    )
    cursor.execute("DELETE FROM call WHERE id <= ?", ((cursor.lastrowid or 0) - CALLS_KEPT,))


def _catch_up(cursor: sqlite3.Cursor) -> None:
    """Make true what the time has brought: scheduled capacity, and the end of what has stopped."""
    now = to_text(clock.now())
    cursor.execute("DELETE FROM instance WHERE gone_at <= ?", (now,))
    cursor.execute("SELECT instance_type, zone, slots FROM schedule WHERE at <= ? ORDER BY at, rowid", (now,))
    for instance_type, zone, slots in cursor.fetchall():
        _set_capacity(cursor, instance_type, zone, slots)
    cursor.execute("DELETE FROM schedule WHERE at <= ?", (now,))


def _set_capacity(cursor: sqlite3.Cursor, instance_type: str, zone: str, slots: int) -> None:
    """What is set for each zone replaces what was set for single ones."""
    if zone == ALL:
        cursor.execute("DELETE FROM capacity WHERE instance_type = ?", (instance_type,))
    cursor.execute("INSERT OR REPLACE INTO capacity VALUES (?, ?, ?)", (instance_type, zone, slots))
