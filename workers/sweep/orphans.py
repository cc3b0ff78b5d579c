"""The orphan sweep: instances that carry this control plane's name and that no endpoint has are adopted or ended.

    look (the provider, then the database) --> plan (pure) --> write down, adopt, end

Every sweep takes up where the last one stopped, from what is stored and what the provider lists: a crash in between
loses nothing, and several schedulers may sweep at once. What was found stands in `controlplane.orphans`.
"""

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction

from controlplane.fleet.overdue import is_to_be_told
from controlplane.observability import events
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OPEN, OrphanState
from controlplane.orphans.stories import installation
from workers.sweep import record
from workers.sweep.adopt import CannotAdopt, adopt
from workers.sweep.end import end, gone, tell_overdue
from workers.sweep.look import Look, look
from workers.sweep.plan import Mode, Plan, Verdict, plan

log = logging.getLogger(__name__)


def sweep(now: datetime) -> list[str]:
    """Look for orphans and deal with them; returns the provider ids whose end was asked for."""
    seen = look(now)
    if seen is None:
        return []
    _close_gone(seen, now)
    return _carry_out(seen, decide(seen), now)


def decide(seen: Look) -> Plan:
    """What is to be done about what was seen, by the mode, the hold and the confirmation that stand."""
    state = Sweep.objects.filter(pk=1).first() or Sweep()
    return plan(
        [each.suspect for each in seen.sighted],
        len(seen.listed),
        Mode(settings.HEADRACE.orphan_sweep),
        held=state.held_why if state.held_since else "",
        confirmed_at=state.confirmed_at,
    )


def _close_gone(seen: Look, now: datetime) -> None:
    """What the provider no longer lists is gone; what a live row knows by now is adopted."""
    suspects = {(each.instance.provider_id, each.instance.launched_at) for each in seen.sighted}
    for orphan in Orphan.objects.filter(provider=seen.provider, state__in=(*OPEN, OrphanState.ADOPTED)):
        identity = (orphan.provider_id, orphan.launched_at)
        if identity not in seen.listed:
            gone(orphan, now)
        elif identity not in suspects and orphan.state == OrphanState.FOUND:
            record.move(orphan, OrphanState.ADOPTED, "OrphanAdopted", f"{orphan} belongs to an endpoint after all", now)


def _carry_out(seen: Look, decided: Plan, now: datetime) -> list[str]:
    _note_hold(decided.hold, now)
    to_end: list[tuple[Orphan, str]] = []
    for sighted, decision in zip(seen.sighted, decided.decisions, strict=True):
        orphan = record.found(seen.provider, sighted, now)
        tell_overdue(orphan, now)
        if decision.verdict is Verdict.LEAVE:
            record.leave(orphan, decision.why)
        elif decision.verdict is Verdict.END:
            to_end.append((orphan, decision.why))
        else:
            _adopt(orphan, now)
    return end(to_end, now)


def _adopt(orphan: Orphan, now: datetime) -> None:
    """Adopt, or leave it to the next sweep: by then its endpoint is free, or no longer lacks an instance."""
    try:
        adopt(orphan, now)
    except CannotAdopt as error:
        log.info("orphan sweep: %s", error)
        record.leave(orphan, str(error))


def _note_hold(hold: str, now: datetime) -> None:
    """Store that the sweep is held back, or no longer, and tell of it."""
    if hold:
        _hold_back(hold, now)
    elif Sweep.objects.exclude(held_since=None).exists():
        _resume(now)


def _hold_back(hold: str, now: datetime) -> None:
    """Tell of it loudly: at once and then every hour, until an operator confirms."""
    with transaction.atomic():
        state, _ = Sweep.objects.select_for_update().get_or_create(pk=1)
        if not is_to_be_told(state.told_at, now):
            return
        Sweep.objects.filter(pk=1).update(held_since=state.held_since or now, held_why=hold, told_at=now)
        sentence = f"The orphan sweep is held back and ends nothing: {hold}. `manage.py orphans --confirm` lets it go on."
        log.error("%s", sentence)
        events.record(installation(), "OrphanSweepHeld", sentence, now=now)


def _resume(now: datetime) -> None:
    with transaction.atomic():
        if Sweep.objects.exclude(held_since=None).update(held_since=None, held_why="", told_at=None):
            sentence = "The orphan sweep goes on: nothing that was in doubt is left."
            events.record(installation(), "OrphanSweepResumed", sentence, now=now)
