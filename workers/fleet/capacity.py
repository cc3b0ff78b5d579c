"""The pure rules of memory and patience: how long a refusal is remembered, and how long a search rests."""

from datetime import datetime, timedelta

BACKOFF_FIRST_SECONDS = 5.0
BACKOFF_LAST_SECONDS = 60.0
"""When every offering is out of reach the list is walked again after 5 s, doubling to 60 s, until the budget ends."""

MARK_LAST_SECONDS = 1800.0
"""A mark doubles with each refusal in a row, to 30 minutes (cluster-autoscaler's figures)."""

QUOTA_MARK_SECONDS = 1800.0
"""A quota does not come back by itself in minutes."""

UNKNOWN_MARK_SECONDS = 60.0
"""A refusal that nobody has met yet says little: a short mark, while somebody looks at what it was."""

PROBE_SECONDS = 30.0
"""How long one probe of a half-open mark keeps others away; longer than any launch call may take."""

SAME_WAVE_SECONDS = 10.0
"""Refusals this close together are one wave and lengthen a mark once, however many endpoints ran into it."""


def backoff_seconds(streak: int, spread: float, *, first: float = BACKOFF_FIRST_SECONDS) -> float:
    """The wait after `streak` failures in a row (1, 2, ...): doubling, capped, and spread by up to a fifth.

    `spread` is a number in [0, 1) that the caller draws, so that many endpoints do not come back at once.
    """
    doublings = min(max(streak - 1, 0), 16)
    return float(min(first * 2**doublings, BACKOFF_LAST_SECONDS)) * (1 + 0.2 * spread)


def mark_seconds(kind: str, streak: int, first_seconds: float) -> float:
    """How long a refusal closes an offering: `first_seconds` doubling with the streak; quota for half an hour, an unknown
    kind for a minute at most."""
    if kind == "quota":
        return max(QUOTA_MARK_SECONDS, first_seconds)
    if kind == "unknown":
        return min(UNKNOWN_MARK_SECONDS, first_seconds)
    return float(min(first_seconds * 2 ** min(streak - 1, 16), max(MARK_LAST_SECONDS, first_seconds)))


def streak_after(previous: int, marked_at: datetime, until: datetime, now: datetime) -> int:
    """The streak of a mark that is refused again; refusals of one wave count once.

    A refusal after the mark's end (of a probe) always counts: a mark that is shorter than the walk over all pools must
    grow until it outlives it, or the walk would go round among the first pools and never reach the last.
    """
    if now < until and now - marked_at < timedelta(seconds=SAME_WAVE_SECONDS):
        return previous
    return previous + 1
