"""What operators want done about orphans. The wish is stored here; the scheduler's workers carry it out in a moment."""

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.core import actor
from controlplane.core.errors import ResourceInUse, ResourceNotFound
from controlplane.observability import events
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OPEN, OrphanState, OrphanWish
from controlplane.orphans.stories import installation, subject_of


def shown_to(account_id: str) -> "QuerySet[Orphan]":
    """The orphans of an account's endpoints; those of which nothing is known belong to the installation's own account."""
    mine = Q(account_id=account_id)
    if account_id == settings.HEADRACE.account_id:
        mine |= Q(account_id="")
    return Orphan.objects.filter(mine)


def get(account_id: str, orphan_id: int) -> Orphan:
    """One of the account's orphans; raises ResourceNotFound."""
    orphan = shown_to(account_id).filter(pk=orphan_id).first()
    if orphan is None:
        raise ResourceNotFound(f"There is no orphan {orphan_id}.")
    return orphan


def ask_end(account_id: str, orphan_id: int, now: datetime) -> Orphan:
    """Want an orphan ended now, whatever the sweep may do. Raises ResourceNotFound, ResourceInUse."""
    return _wish(account_id, orphan_id, OrphanWish.END, OPEN, now)


def ask_adoption(account_id: str, orphan_id: int, now: datetime) -> Orphan:
    """Want an orphan given back to the endpoint that lacks it. Raises ResourceNotFound, ResourceInUse."""
    orphan = get(account_id, orphan_id)
    if orphan.endpoint_id is None:
        raise ResourceInUse(f"{orphan} cannot be adopted: {orphan.origin}.")
    return _wish(account_id, orphan_id, OrphanWish.ADOPT, (OrphanState.FOUND,), now)


def confirm_sweep(now: datetime) -> int:
    """An operator says that what was found are orphans: from now on they are dealt with. Returns how many there are."""
    with transaction.atomic():
        Sweep.objects.update_or_create(
            pk=1, defaults={"confirmed_at": now, "held_since": None, "held_why": "", "told_at": None}
        )
        sentence = "An operator confirmed the orphans that were found."
        events.record(installation(), "OrphanSweepConfirmed", sentence, now=now)
    return Orphan.objects.filter(state__in=OPEN).count()


def wished() -> list[Orphan]:
    """Those about which something is wanted, the longest waiting first."""
    return list(Orphan.objects.exclude(wish=OrphanWish.NONE).order_by("wished_at"))


def settle(orphan: Orphan, failure: str = "") -> None:
    """The wish, as it was read, is carried out, or cannot be: then `failure` says why, and the orphan is as it was."""
    same = Orphan.objects.filter(pk=orphan.pk, wish=orphan.wish, wished_at=orphan.wished_at)
    same.update(wish=OrphanWish.NONE, **({"reason": failure} if failure else {}))


def _wish(account_id: str, orphan_id: int, wish: OrphanWish, states: tuple[OrphanState, ...], now: datetime) -> Orphan:
    orphan = get(account_id, orphan_id)
    verb = "adopted" if wish == OrphanWish.ADOPT else "ended"
    with transaction.atomic():
        wished = shown_to(account_id).filter(pk=orphan_id, state__in=states)
        if not wished.update(wish=wish, wished_at=now, wished_by=actor.current()):
            raise ResourceInUse(f"{orphan} is {orphan.state} and cannot be {verb}.")
        sentence = f"{orphan} is to be {verb}: {actor.current()} asked for it."
        events.record(subject_of(orphan), "OrphanWish", sentence, now=now, detail={"provider_id": orphan.provider_id})
    orphan.refresh_from_db()
    return orphan
