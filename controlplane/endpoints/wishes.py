"""What every change of a wish shares: the lock on the endpoint, its move to another phase, and the word to the workers."""

from datetime import datetime

from django.db.models import F

from controlplane.core import hints
from controlplane.core.errors import ValidationException, in_progress, not_found
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase, sources_of
from controlplane.observability import events

_CURES = {
    Phase.FAILED: "Delete it instead",
    Phase.UPDATE_ROLLBACK_FAILED: "Update it to a configuration that works, or delete it",
}


def locked(arn: Arn) -> Endpoint:
    """The endpoint with its row locked until the transaction ends; raises the API's not-found error."""
    row = Endpoint.objects.select_for_update(no_key=True).filter(account_id=arn.account_id, name=arn.name).first()
    if row is None:
        raise not_found("endpoint", str(arn))
    return row


def locked_for_update(arn: Arn, *, is_deployment: bool = False) -> Endpoint:
    """As `locked`, for an endpoint that may be updated now; raises the API's error for its phase.

    After a failed roll-back two revisions serve, so only a deployment, which ends in one, may follow.
    """
    endpoint = locked(arn)
    if endpoint.phase in sources_of(Phase.UPDATING) and (is_deployment or endpoint.phase == Phase.IN_SERVICE):
        return endpoint
    if endpoint.phase in _CURES:
        cure = _CURES[Phase(endpoint.phase)]
        raise ValidationException(f'Cannot update endpoint "{arn}" while it is in status {endpoint.phase}. {cure}.')
    raise in_progress("endpoint", str(arn))


def wish(endpoint: Endpoint, phase: Phase, now: datetime, **facts: object) -> None:
    """Move a locked endpoint to the phase that a new wish puts it in; whoever works on it plans again."""
    Endpoint.objects.filter(pk=endpoint.pk).update(
        phase=phase, modified_at=now, look_again_at=now, generation=F("generation") + 1, **facts
    )


def look_again(endpoint: Endpoint, now: datetime) -> None:
    """Have a locked endpoint planned anew at once, in the phase it is in; `tell` rings for it."""
    Endpoint.objects.filter(pk=endpoint.pk).update(look_again_at=now, generation=F("generation") + 1)


def tell(endpoint: Endpoint, reason: str, sentence: str, now: datetime) -> None:
    """Record the event and ring the workers' doorbell once the transaction is durable."""
    events.record(events.Subject(endpoint.account_id, "endpoint", endpoint.id, endpoint.name), reason, sentence, now=now)
    hints.ring_after_commit(hints.RECONCILE, endpoint.id)
