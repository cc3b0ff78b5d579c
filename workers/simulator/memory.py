"""The capacity memory of a simulation: `workers.fleet.memory` restated without its database.

The lengths and streaks are the same pure rules of `workers.fleet.capacity`; the moves between states are those drawn in
`workers.fleet.memory`. One dictionary stands for the table, the engine's single thread for its row locks.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from controlplane.core.offerings import Mark
from workers.fleet.capacity import PROBE_SECONDS, mark_seconds, streak_after
from workers.simulator.weather import Key

CAPACITY = "capacity"
INTERRUPTED = "interrupted"


class OnChange(Protocol):
    """Hears of every change of a mark; `is_open` when a launch may have become possible by it."""

    def __call__(self, key: Key, *, is_open: bool) -> None: ...


@dataclass
class _Row:
    mark: Mark
    streak: int
    probe_token: str = ""


class Memory:
    """Marks by key."""

    def __init__(self, first_seconds: float, on_change: OnChange) -> None:
        self._first_seconds = first_seconds
        self._on_change = on_change
        self._rows: dict[Key, _Row] = {}
        self._refused_at: dict[Key, datetime] = {}

    def refused_at(self, key: Key) -> datetime | None:
        """When this key was last refused, whatever became of its mark."""
        return self._refused_at.get(key)

    def mark_of(self, key: Key) -> Mark | None:
        """What is remembered of this key."""
        row = self._rows.get(key)
        return row.mark if row else None

    def holds(self, key: Key, now: datetime) -> bool:
        """Whether a mark closes this key now."""
        row = self._rows.get(key)
        return row is not None and row.mark.until > now

    def remember_refusal(self, key: Key, kind: str, seen_by: str, now: datetime) -> None:
        """Close a key for all endpoints."""
        row = self._rows.get(key)
        streak = streak_after(row.streak, row.mark.marked_at, row.mark.until, now) if row else 1
        until = now + timedelta(seconds=mark_seconds(kind, streak, self._first_seconds))
        self._rows[key] = _Row(Mark(kind, "no room", now, until, seen_by), streak)
        self._refused_at[key] = now
        self._on_change(key, is_open=False)

    def note_interruption(self, key: Key, why: str, seen_by: str, now: datetime) -> None:
        """The market took an instance back: it has none to spare, so the key is closed as after a refusal."""
        row = self._rows.get(key) or _Row(Mark(INTERRUPTED, why, now, now, seen_by), 1)
        until = now + timedelta(seconds=self._first_seconds)
        if row.mark.until >= until:
            return
        row.mark = replace(row.mark, kind=INTERRUPTED, message=why, marked_at=now, until=until, seen_by=seen_by)
        self._rows[key] = row
        self._on_change(key, is_open=False)

    def forget_refusal(self, key: Key) -> None:
        """A launch worked: the key is open again."""
        if self._rows.pop(key, None) is not None:
            self._on_change(key, is_open=True)

    def take_probe(self, key: Key, token: str, now: datetime) -> bool:
        """Whether this launch may probe a half-open key; False when another one is at it or it closed meanwhile."""
        row = self._rows.get(key)
        if row is None:
            return True
        expiry = row.mark.probe_expires_at
        if row.mark.until > now or (expiry is not None and expiry > now):
            return False
        row.mark = replace(row.mark, probe_expires_at=now + timedelta(seconds=PROBE_SECONDS))
        row.probe_token = token
        self._on_change(key, is_open=False)
        return True

    def release_probe(self, key: Key, token: str) -> None:
        """The probe ended without telling anything of capacity: let another one try."""
        row = self._rows.get(key)
        if row is not None and row.probe_token == token:
            row.mark, row.probe_token = replace(row.mark, probe_expires_at=None), ""
            self._on_change(key, is_open=True)

    def reopen(self, key: Key, now: datetime) -> None:
        """An instance of this key has ended: there is room for at least one probe before the mark runs out."""
        row = self._rows.get(key)
        if row is not None and row.mark.until > now and row.mark.kind == CAPACITY:
            row.mark = replace(row.mark, until=now)
            self._on_change(key, is_open=True)
