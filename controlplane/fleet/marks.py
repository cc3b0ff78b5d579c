"""Capacity memory as people see it. All accounts share it; which endpoint met a refusal is told to its own account."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction

from controlplane.core.errors import ResourceNotFound
from controlplane.endpoints.models import Endpoint
from controlplane.fleet.models import CapacityMark
from controlplane.observability import events

SOMEBODY_ELSE = "another account"


def shown_to(account_id: str, marks: Iterable[CapacityMark]) -> list[CapacityMark]:
    """The marks with the names of other accounts' endpoints left out; the rows are not to be saved."""
    rows = list(marks)
    names = {row.seen_by for row in rows}
    own = set(Endpoint.objects.filter(account_id=account_id, name__in=names).values_list("name", flat=True))
    for row in rows:
        row.seen_by = row.seen_by if row.seen_by in own else SOMEBODY_ELSE
    return rows


def forget(account_id: str, mark_id: int, now: datetime) -> None:
    """Delete a mark, so that the next search asks the offering again; raises ResourceNotFound."""
    with transaction.atomic():
        mark = CapacityMark.objects.select_for_update().filter(pk=mark_id).first()
        if mark is None:
            raise ResourceNotFound(f"There is no capacity mark {mark_id}.")
        _forget(account_id, mark, now)


def forget_type(account_id: str, instance_type: str, now: datetime, zone: str = "") -> int:
    """Forget what is remembered of a type, in one zone where it is named; returns how many marks there were."""
    where = {"instance_type": instance_type, **({"zone": zone} if zone else {})}
    with transaction.atomic():
        found = list(CapacityMark.objects.select_for_update().filter(**where).order_by("id"))
        for mark in found:
            _forget(account_id, mark, now)
    return len(found)


def _forget(account_id: str, mark: CapacityMark, now: datetime) -> None:
    sentence = f"The mark on {mark.instance_type} in {mark.zone} ({mark.market}) is forgotten: the next search asks it."
    subject = events.Subject(account_id, "capacity-mark", UUID(int=mark.pk), mark.instance_type)
    events.record(subject, "MarkForgotten", sentence, now=now)
    mark.delete()
