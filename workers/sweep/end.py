"""Ending orphans: the intent is committed, the provider is asked, what it answers is stored; never given up.

Providers are asked several at a time, so that one sweep over many orphans takes about as long as one call.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce

from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.overdue import is_to_be_told
from controlplane.fleet.states import LIVE_STAGES, OPEN_ATTEMPTS
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OrphanState
from workers.providers import registry
from workers.providers.errors import ErrorKind, ProviderError
from workers.sweep import record

CALLS_AT_ONCE = 16

log = logging.getLogger(__name__)


def end(orphans: Sequence[tuple[Orphan, str]], now: datetime) -> list[str]:
    """Ask for the end of each orphan, for the reason given with it; returns the provider ids that were asked about."""
    intended = [orphan for orphan, why in orphans if _intend(orphan, why, now)]
    if not intended:
        return []
    with ThreadPoolExecutor(min(len(intended), CALLS_AT_ONCE)) as pool:
        answers = list(pool.map(_ask, intended))
    for orphan, error in zip(intended, answers, strict=True):
        _note(orphan, error, now)
    return [orphan.provider_id for orphan in intended]


def _intend(orphan: Orphan, why: str, now: datetime) -> bool:
    """Commit that the orphan's end is asked for; False when an endpoint has it after all."""
    with transaction.atomic():
        Orphan.objects.select_for_update().get(pk=orphan.pk)  # keeps an adoption out until this is committed
        if _is_known(orphan.token):
            return False
        record.move(orphan, OrphanState.ENDING, "OrphanEnding", f"{orphan} is ended: {why}", now)
        return bool(
            Orphan.objects.filter(pk=orphan.pk, state=OrphanState.ENDING).update(
                asked_at=Coalesce("asked_at", now), asked_last_at=now, asks=F("asks") + 1
            )
        )


def _is_known(token: str) -> bool:
    return (
        Instance.objects.filter(token=token, stage__in=LIVE_STAGES).exists()
        or LaunchAttempt.objects.filter(token=token, stage__in=OPEN_ATTEMPTS).exists()
    )


def _ask(orphan: Orphan) -> ProviderError | None:
    """Ask the provider; runs in a thread and touches no database."""
    try:
        registry.get(orphan.provider).terminate(orphan.provider_id)
    except ProviderError as error:
        return error
    return None


def _note(orphan: Orphan, error: ProviderError | None, now: datetime) -> None:
    if error is None:
        return
    if error.kind is ErrorKind.GONE:
        gone(orphan, now)
        return
    log.warning("orphan sweep: %s could not be ended, asked again at the next sweep: %s", orphan, error)
    why = f"its end could not be asked for, tried again: {error.message}"
    Orphan.objects.filter(pk=orphan.pk, state=OrphanState.ENDING).update(reason=why)


def gone(orphan: Orphan, now: datetime) -> None:
    """The provider no longer knows it."""
    cost = orphan.cost(now)
    spent = "" if cost is None else f"; it cost {cost:.2f} USD"
    record.move(orphan, OrphanState.GONE, "OrphanGone", f"{orphan} is gone{spent}", now)


def tell_overdue(orphan: Orphan, now: datetime) -> None:
    """Tell, now and then, of an orphan that will not end."""
    if not orphan.is_overdue(now) or not is_to_be_told(orphan.overdue_told_at, now):
        return
    assert orphan.asked_at is not None
    minutes = (now - orphan.asked_at).total_seconds() / 60
    with transaction.atomic():
        told = Orphan.objects.filter(pk=orphan.pk, overdue_told_at=orphan.overdue_told_at).update(overdue_told_at=now)
        if told:
            sentence = f"{orphan} was asked to end {orphan.asks} times in {minutes:.0f} min and still lives and costs"
            record.tell(orphan, "OrphanOverdue", sentence, now)
