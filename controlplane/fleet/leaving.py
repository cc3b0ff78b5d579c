"""Wanting one instance gone: drained at once, or replaced first. The wish is a column; the planner does it."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from controlplane.core import actor
from controlplane.core.errors import ResourceNotFound, ValidationException, in_progress
from controlplane.core.ids import Arn
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.states import Phase
from controlplane.endpoints.wishes import locked, look_again, tell
from controlplane.fleet.models import Instance
from controlplane.fleet.states import LEAVING_STAGES, LIVE_STAGES, Leave


def drain(*, arn: Arn, instance_id: UUID, now: datetime) -> Instance:
    """Want an instance gone at once: no new calls, and its end once those under way have ended. The fleet is one short
    until its replacement serves. Raises ResourceNotFound, or ValidationException when it is leaving anyway."""
    return _ask(arn, instance_id, Leave.DRAIN, now)


def replace(*, arn: Arn, instance_id: UUID, now: datetime) -> Instance:
    """Want an instance gone once another serves in its place. Raises as `drain` does."""
    return _ask(arn, instance_id, Leave.REPLACE, now)


def live_instances(endpoint: Endpoint) -> list[Instance]:
    """The endpoint's instances that a provider may still hold, in the order of their launch."""
    rows = Instance.objects.filter(endpoint=endpoint, stage__in=LIVE_STAGES).select_related("variant")
    return list(rows.order_by("launched_at", "id"))


def _ask(arn: Arn, instance_id: UUID, how: Leave, now: datetime) -> Instance:
    """Store the wish; repeating it changes nothing, and a drain overrides a replacement that is still waited for."""
    with transaction.atomic():
        endpoint = locked(arn)
        if endpoint.phase == Phase.DELETING:
            raise in_progress("endpoint", str(arn))
        row = _found(endpoint, instance_id)
        if row.leave == how:
            return row
        _check(row)
        row.leave, row.leave_asked_at, row.leave_asked_by = how, now, actor.current()
        row.save(update_fields=["leave", "leave_asked_at", "leave_asked_by"])
        look_again(endpoint, now)
        tell(endpoint, _REASONS[how], _SENTENCES[how].format(name=f"{row.instance_type} {str(row.id)[:8]}"), now)
    return row


def _found(endpoint: Endpoint, instance_id: UUID) -> Instance:
    rows = Instance.objects.filter(endpoint=endpoint, pk=instance_id, stage__in=LIVE_STAGES)
    row = rows.select_related("variant").first()
    if row is None:
        raise ResourceNotFound(f"Endpoint {endpoint.name} has no live instance {instance_id}.")
    return row


def _check(row: Instance) -> None:
    if row.stage in LEAVING_STAGES:
        raise ValidationException(f"Instance {row.id} is {row.stage} already.")
    if row.leave == Leave.DRAIN:
        raise ValidationException(f"Instance {row.id} is about to be drained, as {row.leave_asked_by} asked.")


_REASONS = {Leave.DRAIN: "DrainRequested", Leave.REPLACE: "ReplaceRequested"}

_SENTENCES = {
    Leave.DRAIN: "{name} is to go: it gets no new calls and ends with those under way; a replacement is searched for.",
    Leave.REPLACE: "{name} is to be replaced: it serves until another instance serves in its place, and is drained then.",
}
