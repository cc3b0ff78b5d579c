"""The only shape of a controller: claim, observe, plan, act, record, release.

One call works until nothing is left to do now, then stores when to look again. A wish that changes under it, or an
outcome that calls for the next step (a refused pool), leads to another round within the same claim; a lost claim ends
it at once. A fault ends it as well, and gives the endpoint back: whoever comes next takes up from what is stored.
"""

import logging
from uuid import UUID

from controlplane.core import clock
from workers.fleet import act, observe, soundings
from workers.fleet.actions import Plan
from workers.fleet.plan import plan
from workers.fleet.topics import gate
from workers.loop import lease
from workers.loop.give_back import give_back
from workers.loop.lease import Claim, ClaimLost, ClaimUnknown, WishChanged

ROUNDS_LIMIT = 64
"""Enough to walk five pools in several zones with partial fills; beyond it the endpoint waits its turn again, so that
one endpoint cannot keep a worker to itself."""

AFTER_FAULT_SECONDS = 5.0
"""When an endpoint whose round ended in an unexpected fault is looked at again."""

AFTER_OUTAGE_SECONDS = 1.0
"""The same where the fault was that the database was away: it is no fault of the endpoint."""

OUTAGE = "The database was away in the middle of a round, which begins anew."

log = logging.getLogger(__name__)


def reconcile(endpoint_id: UUID) -> bool:
    """Bring one endpoint closer to what is wanted of it; False when somebody else is at it, it is gone, or there is no
    database to claim it from.
    """
    try:
        claim = lease.claim(endpoint_id)
    except ClaimUnknown as error:
        log.warning("endpoint %s cannot be claimed: %s", endpoint_id, error.__cause__)
        give_back(error.claim, AFTER_OUTAGE_SECONDS, OUTAGE)
        return False
    if claim is None:
        return False
    try:
        _work(claim)
    except act.EndpointRemoved:
        log.info("endpoint %s is deleted", endpoint_id)
    except ClaimLost:
        log.warning("endpoint %s: the claim was lost, its new holder goes on", endpoint_id)
    except lease.AWAY as error:
        log.warning("endpoint %s: the database went away in the middle of a round: %s", endpoint_id, error)
        give_back(claim, AFTER_OUTAGE_SECONDS, OUTAGE)
    except Exception:
        # One endpoint's fault must not end the worker nor keep the endpoint from being looked at again.
        log.exception("endpoint %s: the round failed", endpoint_id)
        give_back(claim, AFTER_FAULT_SECONDS, "The last round failed; see the log.")
    return True


def _work(claim: Claim) -> None:
    """Rounds of observe, plan and act until a plan asks for nothing, then record and release."""
    sounded = soundings.sound(claim.endpoint_id)
    for _ in range(ROUNDS_LIMIT):
        claim = claim.refreshed()
        view = observe.view(claim.endpoint_id, sounded)
        now = clock.now()
        decided = gate(view, plan(view, now), now)
        if not _act(decided, claim):
            claim.release(decided.look_again_at, decided.why)
            return
        # What the provider said holds for one round: acting on it twice would count one missed ping as two.
        sounded = soundings.NOTHING_SOUNDED
    claim.release(clock.now(), decided.why)


def _act(decided: Plan, claim: Claim) -> bool:
    """Do what was decided, in order, until the wish changes; True when facts changed, so that planning again pays."""
    changed = False
    try:
        for action in decided.actions:
            changed = act.perform(action, claim) or changed
    except WishChanged:
        log.info("endpoint %s: what is wanted changed, planning again", claim.endpoint_id)
        return True
    return changed
