"""Reading orphans, for the report and the console."""

from collections.abc import Sequence
from datetime import datetime

from controlplane.core.words import counted
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OPEN


def orphans(*, has_closed: bool = False) -> list[Orphan]:
    """Those that live and that nobody has, oldest first; with `has_closed` also those adopted or gone."""
    rows = Orphan.objects.order_by("launched_at", "provider_id")
    return list(rows if has_closed else rows.filter(state__in=OPEN))


def state_word(orphan: Orphan, now: datetime) -> str:
    """The state as operators read it: an end that takes too long is called overdue."""
    return f"{orphan.state}, overdue ({orphan.asks} asks)" if orphan.is_overdue(now) else str(orphan.state)


def age(orphan: Orphan, now: datetime) -> str:
    """The time since the launch, in the largest fitting unit."""
    minutes = int((now - orphan.launched_at).total_seconds() // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} d"


def total(rows: Sequence[Orphan], now: datetime) -> str:
    """What the orphans of a report cost together, as a sentence."""
    live = [row for row in rows if row.state in OPEN]
    hourly = sum(row.hourly_price or 0.0 for row in live)
    spent = sum(row.cost(now) or 0.0 for row in rows)
    unknown = sum(row.hourly_price is None for row in rows)
    note = f" ({unknown} of unknown price not counted)" if unknown else ""
    return f"{counted(len(live), 'orphan')} live, {hourly:.3f} USD/h together; {spent:.2f} USD so far{note}."
