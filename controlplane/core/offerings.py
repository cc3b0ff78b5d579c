"""The one rule of which offering a launch asks for next. Pure; shared by the planner, the preview and the explanations.

An *offering* is an instance pool in one zone of one market: the unit that a launch asks for and a mark closes. A search
sees its offerings as a ladder, most wanted first, and takes the first rung that is open:

    OPEN       ask it
    PROBE      its mark has run out: exactly one launch may test it
    CLOSED     a mark still holds, or somebody is probing it
    PATIENT    its pool is asked only once the search has been short for a while
    TOO_DEAR   it would lift the endpoint's cost above its ceiling
    NO_QUOTA   the account's quotas leave no room for it

Priority 1 is the most wanted (Kubernetes' weights run the other way): `preference` is the one place that compares.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

ON_DEMAND = "on-demand"
SPOT = "spot"
MARKETS = (ON_DEMAND, SPOT)


@dataclass(frozen=True)
class Mark:
    """A remembered refusal of one offering; see `controlplane.fleet.models.CapacityMark`."""

    kind: str
    message: str
    marked_at: datetime
    until: datetime
    seen_by: str
    probe_expires_at: datetime | None = None


@dataclass(frozen=True)
class Pool:
    """An instance pool of a variant; lower priority numbers are more wanted, equal ones in list order.

    `patience_seconds` is how long a search goes without an instance before it asks this pool.
    """

    id: int
    priority: int
    position: int
    instance_type: str
    patience_seconds: float = 0.0


@dataclass(frozen=True)
class Offering:
    """A pool in one zone of one market. `hourly_price` is in US dollars, None where nobody knows it; `room` is how many
    more instances of its type the account's quotas allow, None where there is no limit. `refused_at` is when it was last
    refused to anybody, where that is asked for; a success since then clears the mark, but makes it no older."""

    pool: Pool
    zone: str
    mark: Mark | None = None
    market: str = ON_DEMAND
    hourly_price: float | None = None
    room: int | None = None
    refused_at: datetime | None = None


@dataclass(frozen=True)
class Search:
    """A search for one more instance.

    `short_since` is when the variant was first refused an instance it lacks (None: not yet). `not_before` is the end of
    a back-off. `headroom` is what one more instance may cost per hour in US dollars (None: no ceiling).
    """

    offerings: tuple[Offering, ...]
    short_since: datetime | None = None
    not_before: datetime | None = None
    headroom: float | None = None


class Standing(StrEnum):
    """Where an offering stands in a search; see the table in the module docstring."""

    OPEN = "open"
    PROBE = "probe"
    CLOSED = "closed"
    PATIENT = "patient"
    TOO_DEAR = "too dear"
    NO_QUOTA = "no quota"


@dataclass(frozen=True)
class Rung:
    """An offering with its standing, `until` when that holds by itself (None: no end in sight), and why."""

    offering: Offering
    standing: Standing
    why: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class Choice:
    """The offering to ask next and why; `is_probe` when its mark has run out and exactly one launch may test it."""

    offering: Offering
    is_probe: bool
    why: str


@dataclass(frozen=True)
class Wait:
    """Nothing to ask before `until`."""

    until: datetime
    why: str


TOO_DEAR_LOOK_SECONDS = 60.0
"""A search that only its ceiling or a quota stops looks again this late: instances end, and operators raise both."""


ANYWAY_SECONDS = 5.0
"""What was refused so short a time ago is not asked anyway; as long as the first back-off."""


def preference(pool: Pool) -> tuple[int, int]:
    """Sort key of pools, most wanted first: the smallest priority number, then the place in the list."""
    return (pool.priority, pool.position)


def ladder(search: Search, now: datetime) -> tuple[Rung, ...]:
    """Every offering of the search with its standing, most wanted first; within a pool in the order given."""
    offerings = sorted(search.offerings, key=lambda offering: preference(offering.pool))
    return tuple(_rung(offering, search, now) for offering in offerings)


def next_offering(search: Search, now: datetime) -> Choice | Wait:
    """The offering that the next launch should ask for, or until when to wait.

    The most wanted open one wins. If a mark holds on every one that may be asked at all, memory alone never blocks a
    launch: once the back-off is over, the one marked longest ago is asked anyway, unless that was only just.
    """
    if search.not_before is not None and search.not_before > now:
        return Wait(search.not_before, f"It tries again at {search.not_before:%H:%M:%S}")
    rungs = ladder(search, now)
    for place, rung in enumerate(rungs):
        if rung.standing in (Standing.OPEN, Standing.PROBE):
            return Choice(rung.offering, rung.standing is Standing.PROBE, _passed_over(rungs[:place]))
    patient = [rung for rung in rungs if rung.standing is Standing.PATIENT]
    closed = [rung for rung in rungs if rung.standing is Standing.CLOSED]
    if closed and not patient:
        return _asked_anyway(closed, now)
    ends = [rung.until for rung in rungs if rung.until is not None]
    return Wait(min(ends, default=now + timedelta(seconds=TOO_DEAR_LOOK_SECONDS)), _passed_over(rungs) or "No pool is left")


def _asked_anyway(closed: list[Rung], now: datetime) -> Choice | Wait:
    """Of offerings that are all closed, the one marked longest ago; at the soonest a moment after it was refused.

    The moment is what keeps a search from asking again and again where nothing else does: where, beside what refused, a
    ceiling or a quota rules out the rest.
    """
    oldest = min(closed, key=lambda rung: rung.offering.mark.marked_at if rung.offering.mark else now)
    marked_at = oldest.offering.mark.marked_at if oldest.offering.mark else now
    again = marked_at + timedelta(seconds=ANYWAY_SECONDS)
    if again > now:
        return Wait(again, f"Every pool is marked; the one refused longest ago is asked again at {again:%H:%M:%S}")
    return Choice(oldest.offering, False, "every pool is marked; the one refused longest ago is asked anyway")


def is_out_after(search: Search, refused: Offering, now: datetime) -> bool:
    """Whether, once `refused` is marked too, nothing is left to ask: the list is then walked again later.

    Where a pool's patience still runs the search waits for that and not for a back-off. What a ceiling or a quota rules
    out is no other pool to turn to.
    """
    others = Search(
        tuple(each for each in search.offerings if each != refused), search.short_since, headroom=search.headroom
    )
    return all(rung.standing in _NOTHING_TO_ASK for rung in ladder(others, now))


_NOTHING_TO_ASK = (Standing.CLOSED, Standing.TOO_DEAR, Standing.NO_QUOTA)


def is_closed(offering: Offering, now: datetime) -> bool:
    """Whether a launch should skip this offering: its mark still holds, or somebody is probing it."""
    mark = offering.mark
    if mark is None:
        return False
    return mark.until > now or (mark.probe_expires_at is not None and mark.probe_expires_at > now)


def _rung(offering: Offering, search: Search, now: datetime) -> Rung:
    if _is_over_quota(offering):
        return Rung(offering, Standing.NO_QUOTA, f"the quota leaves no room for {offering.pool.instance_type}")
    if _is_too_dear(offering, search.headroom):
        return Rung(offering, Standing.TOO_DEAR, _dear(offering, search.headroom))
    patient_until = _patient_until(offering, search, now)
    if patient_until is not None:
        why = f"{offering.pool.instance_type} is asked only after {offering.pool.patience_seconds / 60:g} min without"
        return Rung(offering, Standing.PATIENT, why, patient_until)
    mark = offering.mark
    if mark is None:
        return Rung(offering, Standing.OPEN)
    if mark.until > now:
        why = f"{offering.pool.instance_type} skipped until {mark.until:%H:%M:%S} ({mark.kind}, seen by {mark.seen_by})"
        return Rung(offering, Standing.CLOSED, why, mark.until)
    if is_closed(offering, now):
        why = f"{offering.pool.instance_type} skipped while another launch probes it ({mark.kind}, seen by {mark.seen_by})"
        return Rung(offering, Standing.CLOSED, why, mark.probe_expires_at)
    return Rung(offering, Standing.PROBE, f"{offering.pool.instance_type} is probed: its mark has run out")


def _is_over_quota(offering: Offering) -> bool:
    return offering.room is not None and offering.room <= 0


def _is_too_dear(offering: Offering, headroom: float | None) -> bool:
    """An unknown price counts as too dear where there is a ceiling: a ceiling that guesses is none."""
    if headroom is None:
        return False
    return offering.hourly_price is None or offering.hourly_price > headroom + 1e-9


def _dear(offering: Offering, headroom: float | None) -> str:
    kind = offering.pool.instance_type
    if offering.hourly_price is None:
        return f"{kind} has no known price, so the endpoint's ceiling rules it out"
    left = max(headroom or 0.0, 0.0)
    return f"{kind} costs {offering.hourly_price:.2f} USD/h and {left:.2f} is left below the endpoint's ceiling"


def _patient_until(offering: Offering, search: Search, now: datetime) -> datetime | None:
    """Until when patience keeps this offering back; before the first refusal, its full length from now."""
    patience = timedelta(seconds=offering.pool.patience_seconds)
    if not patience or not _has_better(offering, search):
        return None
    until = (search.short_since or now) + patience
    return until if until > now else None


def _has_better(offering: Offering, search: Search) -> bool:
    """Whether there is a more wanted pool to wait for that the ceiling and the quotas allow."""
    return any(
        preference(other.pool) < preference(offering.pool)
        and not _is_too_dear(other, search.headroom)
        and not _is_over_quota(other)
        for other in search.offerings
    )


def _passed_over(rungs: Iterable[Rung]) -> str:
    """Why these were not asked, for the launch's sentence."""
    return "; ".join(rung.why for rung in rungs if rung.why)
