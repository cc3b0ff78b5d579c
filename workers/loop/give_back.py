"""Giving a claim back after a fault, as soon as the database is there to take it.

    fault ----> release ----> free, looked at again a while later
                 |   ^
            away v   | PAUSE_SECONDS, on another connection
                 waits ----> after TRIES: the claim has expired or is about to, and anybody may take it

A database that was killed is back within a second or two. Without this the endpoints that were being worked on would be
nobody's until their claims expire.
"""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from django.db import connection

from controlplane.core import clock
from workers.loop.lease import AWAY, CLAIM_SECONDS, Claim

PAUSE_SECONDS = 0.25
TRIES = int(CLAIM_SECONDS / PAUSE_SECONDS)

log = logging.getLogger(__name__)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def give_back(claim: Claim, look_again_seconds: float, why: str, pause: Callable[[float], None] = _wait) -> bool:
    """Release `claim`, its endpoint to be looked at again that much later; False when the database never took it.

    Nothing happens to an endpoint that somebody else holds by now.
    """
    until = clock.monotonic() + CLAIM_SECONDS
    for tried in range(TRIES):
        if clock.monotonic() > until:
            break
        connection.close_if_unusable_or_obsolete()
        try:
            claim.release(clock.now() + timedelta(seconds=look_again_seconds), why)
        except AWAY as error:
            if not tried:
                log.warning("endpoint %s cannot be given back yet: %s", claim.endpoint_id, error)
            pause(PAUSE_SECONDS)
        else:
            return True
    return False
