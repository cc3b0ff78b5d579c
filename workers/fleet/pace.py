"""The pure rule against runaway healing: what keeps dying soon after it served is started ever more rarely.

Such an instance passed its health check, so no start failure tells of it, and no capacity is short: walking the pools or
launching at once would burn money for nothing. Everything is read off the instances that ended; nothing is counted.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from controlplane.core.offerings import Wait
from controlplane.core.words import counted
from workers.fleet.capacity import backoff_seconds
from workers.fleet.view import Variant

SHORT_LIFE_SECONDS = 120.0
"""An instance that ends by itself so soon after its first good /ping has lived too short to be taken for well."""

MEMORY_SECONDS = 600.0
"""How long a short life is held against the variant: several times the longest wait, so that the pace stays slow."""

FIRST_WAIT_SECONDS = 2.0

SAME_LOOK_SECONDS = 1.0
"""Ends this close together were seen in one look and are one failure; shorter than the shortest wait."""


def rest(variant: Variant, now: datetime) -> Wait | None:
    """How long the next launch rests because of short lives; None when it need not (any more)."""
    ends = [end for end in variant.short_lives if now - end < timedelta(seconds=MEMORY_SECONDS)]
    if not ends:
        return None
    until = max(ends) + timedelta(seconds=backoff_seconds(_waves(ends), 0.0, first=FIRST_WAIT_SECONDS))
    if until <= now:
        return None
    ended = counted(len(ends), "instance")
    why = f"Variant {variant.name} tries again at {until:%H:%M:%S}: {ended} ended soon after they served"
    return Wait(until, why)


def _waves(ends: Iterable[datetime]) -> int:
    """How many times instances ended; those that ended together (a host, a bad model) count once."""
    waves, last = 0, None
    for end in sorted(ends):
        if last is None or end - last >= timedelta(seconds=SAME_LOOK_SECONDS):
            waves, last = waves + 1, end
    return waves
