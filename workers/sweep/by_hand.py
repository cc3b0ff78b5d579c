"""What operators do about orphans by hand: look, end one, adopt one. The rules are those of the sweep, less its mode."""

from datetime import datetime

from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OPEN
from workers.sweep import adopt as adopting
from workers.sweep.end import end
from workers.sweep.look import look
from workers.sweep.orphans import decide


class CannotEnd(Exception):
    """The orphan cannot be ended; the message says why."""


def preview(now: datetime) -> list[str] | None:
    """What a sweep would do now, a line for each suspect; None when the provider cannot be asked. Changes nothing."""
    seen = look(now)
    if seen is None:
        return None
    decided = decide(seen)
    return [
        f"{sighted.instance.provider_id}  {sighted.instance.instance_type}  {decision.verdict}: {decision.why}"
        for sighted, decision in zip(seen.sighted, decided.decisions, strict=True)
    ]


def kill(provider_id: str, now: datetime) -> str:
    """End this orphan; returns what was done. Raises CannotEnd when there is none or an endpoint has it."""
    orphan = _open(provider_id)
    if orphan is None:
        raise CannotEnd(f"there is no orphan {provider_id!r}; see `manage.py orphans`")
    return end_one(orphan, now)


def end_one(orphan: Orphan, now: datetime) -> str:
    """`kill` for an orphan that was found already."""
    if not end([(orphan, "an operator asked for it")], now):
        raise CannotEnd(f"{orphan} has an endpoint by now and is left alone")
    orphan.refresh_from_db()
    return f"{orphan}: {orphan.reason}"


def adopt(provider_id: str, now: datetime) -> str:
    """Give this orphan back to its endpoint; returns what was done. Raises CannotAdopt."""
    orphan = _open(provider_id)
    if orphan is None:
        raise adopting.CannotAdopt(f"there is no orphan {provider_id!r}; see `manage.py orphans`")
    return adopt_one(orphan, now)


def adopt_one(orphan: Orphan, now: datetime) -> str:
    """`adopt` for an orphan that was found already."""
    adopting.adopt(orphan, now)
    orphan.refresh_from_db()
    return f"{orphan}: {orphan.reason}"


def _open(provider_id: str) -> Orphan | None:
    return Orphan.objects.filter(provider_id=provider_id, state__in=OPEN).order_by("-launched_at").first()
