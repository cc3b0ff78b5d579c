"""The pure rules of walking pools: which offering the next launch asks for, and how long a refusal is remembered.

Priority 1 is the most wanted (Kubernetes' weights run the other way): `preference` is the one place that compares.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.fleet.view import Offering, Pool, Variant

BACKOFF_FIRST_SECONDS = 5.0
BACKOFF_LAST_SECONDS = 60.0
"""When every offering is out of reach the list is walked again after 5 s, doubling to 60 s, until the budget ends."""

MARK_LAST_SECONDS = 1800.0
"""A mark doubles with each refusal in a row, to 30 minutes (cluster-autoscaler's figures)."""

QUOTA_MARK_SECONDS = 1800.0
"""A quota does not come back by itself in minutes."""

PROBE_SECONDS = 30.0
"""How long one probe of a half-open mark keeps others away; longer than any launch call may take."""

SAME_WAVE_SECONDS = 10.0
"""Refusals this close together are one wave and lengthen a mark once, however many endpoints ran into it."""


def preference(pool: Pool) -> tuple[int, int]:
    """Sort key of pools, most wanted first: the smallest priority number, then the place in the list."""
    return (pool.priority, pool.position)


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


def is_closed(offering: Offering, now: datetime) -> bool:
    """Whether a launch should skip this offering: its mark still holds, or somebody is probing it."""
    mark = offering.mark
    if mark is None:
        return False
    return mark.until > now or (mark.probe_expires_at is not None and mark.probe_expires_at > now)


def next_offering(variant: Variant, now: datetime) -> Choice | Wait:
    """The offering the next launch of `variant` should ask for.

    The most wanted one without a mark wins. If all are marked, memory alone never blocks a launch: once the back-off
    is over, the one marked longest ago is asked anyway.
    """
    if variant.launch_not_before is not None and variant.launch_not_before > now:
        return Wait(
            variant.launch_not_before, f"Variant {variant.name} tries again at {variant.launch_not_before:%H:%M:%S}"
        )
    offerings = sorted(variant.offerings, key=lambda offering: preference(offering.pool))
    for offering in offerings:
        if not is_closed(offering, now):
            return Choice(offering, offering.mark is not None, _skipped(offerings, offering))
    oldest = min(offerings, key=lambda offering: offering.mark.marked_at if offering.mark else now)
    return Choice(oldest, False, "every pool is marked; the one refused longest ago is asked anyway")


def _skipped(offerings: list[Offering], chosen: Offering) -> str:
    """Why the more wanted offerings were passed over, for the launch's sentence."""
    skipped = [offering for offering in offerings[: offerings.index(chosen)] if offering.mark]
    return "; ".join(
        f"{o.pool.instance_type} skipped until {o.mark.until:%H:%M:%S} ({o.mark.kind}, seen by {o.mark.seen_by})"
        for o in skipped
        if o.mark
    )


def all_closed_after_refusal(variant: Variant, refused: Offering, now: datetime) -> bool:
    """Whether, once `refused` is marked too, no offering of the variant is open."""
    return all(offering == refused or is_closed(offering, now) for offering in variant.offerings)


def backoff_seconds(streak: int, spread: float, *, first: float = BACKOFF_FIRST_SECONDS) -> float:
    """The wait after `streak` failures in a row (1, 2, ...): doubling, capped, and spread by up to a fifth.

    `spread` is a number in [0, 1) that the caller draws, so that many endpoints do not come back at once.
    """
    doublings = min(max(streak - 1, 0), 16)
    return float(min(first * 2**doublings, BACKOFF_LAST_SECONDS)) * (1 + 0.2 * spread)


def mark_seconds(kind: str, streak: int, first_seconds: float) -> float:
    """How long a refusal closes an offering: `first_seconds` doubling with the streak, quota for half an hour."""
    if kind == "quota":
        return max(QUOTA_MARK_SECONDS, first_seconds)
    return float(min(first_seconds * 2 ** min(streak - 1, 16), max(MARK_LAST_SECONDS, first_seconds)))


def streak_after(previous: int, marked_at: datetime, now: datetime) -> int:
    """The streak of a mark that is refused again; refusals of one wave count once."""
    if now - marked_at < timedelta(seconds=SAME_WAVE_SECONDS):
        return previous
    return previous + 1
