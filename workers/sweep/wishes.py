"""Carrying out what operators want done about orphans, in their name."""

import logging
from datetime import datetime

from controlplane.core.actor import acting
from controlplane.orphans import services
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OPEN, OrphanWish
from workers.sweep import by_hand
from workers.sweep.adopt import CannotAdopt

log = logging.getLogger(__name__)


def carry_out(now: datetime) -> None:
    """See to every wish there is. A crash in between leaves it standing: ending and adopting may be asked for twice."""
    for orphan in services.wished():
        with acting(orphan.wished_by):
            failure = _try(orphan, now)
        if failure:
            log.info("orphan %s: %s", orphan.provider_id, failure)
        services.settle(orphan, failure)


def _try(orphan: Orphan, now: datetime) -> str:
    """Do it; returns why it cannot be done, empty when it was."""
    if orphan.state not in OPEN:
        return ""
    try:
        if orphan.wish == OrphanWish.ADOPT:
            by_hand.adopt_one(orphan, now)
        else:
            by_hand.end_one(orphan, now)
    except (CannotAdopt, by_hand.CannotEnd) as error:
        return f"{error}"
    return ""
