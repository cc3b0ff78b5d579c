"""The attempt ladder of a variant: every offering, what came of asking it, and where it stands now. Pure.

    TRIED      this endpoint has asked it
    SKIPPED    not asked: a mark, another one's probe or the ceiling keeps it closed
    WAITING    not asked: its pool's patience has not run out
    OPEN       not asked: nothing keeps it closed

The state says what has happened, the standing (`offerings.Standing`) what a search would make of it now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from controlplane.core.offerings import Offering, Rung, Search, Standing, Wait, ladder, next_offering
from controlplane.core.words import counted


class State(StrEnum):
    """See the table in the module docstring."""

    TRIED = "tried"
    SKIPPED = "skipped"
    WAITING = "waiting"
    OPEN = "open"


@dataclass(frozen=True)
class Tries:
    """What came of asking one offering: how often, with what result, and the last failure's kind and message."""

    asked: int = 0
    launched: int = 0
    refused: int = 0
    under_way: int = 0
    last_asked_at: datetime | None = None
    error_kind: str = ""
    message: str = ""


Key = tuple[int, str, str]
"""Pool id, zone, market."""


@dataclass(frozen=True)
class Step:
    """One offering of the ladder. `next_try_at` is when a search that lacks an instance could ask it; None: not by
    itself, or not at all while nothing is missing."""

    rung: Rung
    state: State
    tries: Tries
    next_try_at: datetime | None

    @property
    def is_anyway(self) -> bool:
        """Whether it is asked before its mark ends, since nothing else is open."""
        return self.next_try_at is not None and self.rung.until is not None and self.next_try_at < self.rung.until

    @property
    def sentence(self) -> str:
        """The step in words."""
        parts = [_asked(self.tries), self.rung.why or "open"]
        if self.next_try_at is not None:
            anyway = " all the same, as nothing else is open" if self.is_anyway else ""
            parts.append(f"next try at {self.next_try_at:%H:%M:%S}{anyway}")
        return "; ".join(part for part in parts if part)


def steps(search: Search, tries: Mapping[Key, Tries], now: datetime, *, is_short: bool) -> tuple[Step, ...]:
    """The ladder of a search, most wanted first; `is_short` when the variant lacks an instance that is not on its way."""
    found = []
    first = _first_asked(search, now) if is_short else None
    for rung in ladder(search, now):
        own = tries.get(key_of(rung.offering), Tries())
        next_try = _next_try(rung, search, now) if is_short else None
        if first is not None and first[0] == rung.offering:
            next_try = first[1]
        found.append(Step(rung, _state(rung, own), own, next_try))
    return tuple(found)


def key_of(offering: Offering) -> Key:
    """What the tries of an offering are kept by."""
    return (offering.pool.id, offering.zone, offering.market)


def _state(rung: Rung, tries: Tries) -> State:
    if tries.asked:
        return State.TRIED
    if rung.standing is Standing.PATIENT:
        return State.WAITING
    if rung.standing in (Standing.CLOSED, Standing.TOO_DEAR):
        return State.SKIPPED
    return State.OPEN


def _first_asked(search: Search, now: datetime) -> tuple[Offering, datetime] | None:
    """What the search asks next, and when; of offerings that are all closed one is asked before its mark ends."""
    at = max(now, search.not_before or now)
    found = next_offering(search, at)
    if isinstance(found, Wait):
        at = found.until
        found = next_offering(search, at)
    return None if isinstance(found, Wait) else (found.offering, at)


def _next_try(rung: Rung, search: Search, now: datetime) -> datetime | None:
    """When this rung opens, but not before the back-off ends."""
    if rung.standing is Standing.TOO_DEAR:
        return None
    return max(each for each in (now, rung.until, search.not_before) if each is not None)


def _asked(tries: Tries) -> str:
    if not tries.asked:
        return "not asked"
    parts = [f"asked {counted(tries.asked, 'time')}"]
    counts = (("launched", tries.launched), ("refused", tries.refused), ("under way", tries.under_way))
    parts += [f"{count} {word}" for word, count in counts if count]
    if tries.last_asked_at is not None:
        parts.append(f"last at {tries.last_asked_at:%H:%M:%S}")
    if tries.error_kind:
        parts.append(f"last failure {tries.error_kind}: {tries.message}")
    return ", ".join(parts)
