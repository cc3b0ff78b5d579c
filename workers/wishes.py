"""What operators want of the provider, stored by the control plane, which knows none: carried out here, in a moment."""

from datetime import datetime

from workers import rehearsals
from workers.sweep import wishes


def carry_out(now: datetime) -> None:
    """Rehearse the shortages that are wanted, then end and adopt the orphans that somebody decided about."""
    rehearsals.apply(now)
    wishes.carry_out(now)
