"""Adopting an orphan: its launch attempt is opened again, and the fleet finishes its story as any other's.

The fleet asks the provider by the attempt's token, finds the instance and stores it; so an adoption takes the very path
of a launch whose outcome was lost, under the endpoint's claim like everything that is done to an endpoint. However it ends,
the claim is given back, once the database is there to take it. Should the endpoint want the instance no more by then, it
ends it as it ends any surplus.
"""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from controlplane.core import hints
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.fleet.states import OPEN_ATTEMPTS, AttemptStage
from controlplane.orphans.models import Orphan
from controlplane.orphans.states import OrphanState
from workers.loop import lease
from workers.loop.give_back import give_back
from workers.loop.lease import Claim, ClaimLost, ClaimUnknown, WishChanged
from workers.sweep import record
from workers.sweep.look import is_lacking


class CannotAdopt(Exception):
    """The orphan cannot be adopted (now); the message says why."""


def adopt(orphan: Orphan, now: datetime) -> None:
    """Give the orphan back to its endpoint. Raises CannotAdopt, having changed nothing."""
    if orphan.endpoint_id is None:
        raise CannotAdopt(f"{orphan} cannot be adopted: {orphan.origin}")
    claim = _claimed(orphan.endpoint_id)
    if claim is None:
        raise CannotAdopt(f"endpoint {orphan.endpoint_name} is being worked on or is deleted; try again")
    outcome = f"{orphan} was not adopted."
    try:
        with transaction.atomic():
            claim.confirm(now)
            _reopen(orphan, claim, now)
        outcome = f"{orphan} is adopted."
    except (ClaimLost, WishChanged) as error:
        raise CannotAdopt(f"endpoint {orphan.endpoint_name} changed meanwhile; try again") from error
    finally:
        give_back(claim, 0.0, outcome)
    hints.ring_after_commit(hints.RECONCILE, orphan.endpoint_id)


def _claimed(endpoint_id: UUID) -> Claim | None:
    """The claim, None if somebody else has it; raises CannotAdopt when the database goes away in the middle of it."""
    try:
        return lease.claim(endpoint_id)
    except ClaimUnknown as error:
        give_back(error.claim, 0.0, "The database was away as an orphan was to be adopted.")
        raise CannotAdopt("the database went away; try again") from error


def _reopen(orphan: Orphan, claim: Claim, now: datetime) -> None:
    attempt = _closed_attempt(orphan, claim)
    if not is_lacking(attempt.variant):
        raise CannotAdopt(f"endpoint {orphan.endpoint_name} lacks no instance now: it would end {orphan} as surplus")
    sentence = f"{orphan} is adopted: endpoint {orphan.endpoint_name} lacks such an instance"
    if not record.move(orphan, OrphanState.ADOPTED, "OrphanAdopted", sentence, now):
        raise CannotAdopt(f"{orphan} is {orphan.state} already")
    attempt.stage, attempt.ended_at = AttemptStage.AMBIGUOUS, None
    attempt.save(update_fields=["stage", "ended_at"])


def _closed_attempt(orphan: Orphan, claim: Claim) -> LaunchAttempt:
    """The attempt that made the orphan, which must be closed and must never have had an instance."""
    found = LaunchAttempt.objects.filter(token=orphan.token, endpoint_id=claim.endpoint_id)
    attempt = found.select_related("endpoint", "variant").first()
    if attempt is None:
        raise CannotAdopt(f"{orphan} cannot be adopted: the launch that made it is no longer known")
    if attempt.stage in OPEN_ATTEMPTS or Instance.objects.filter(token=orphan.token).exists():
        raise CannotAdopt(f"{orphan} cannot be adopted: endpoint {orphan.endpoint_name} has it or had it already")
    return attempt
