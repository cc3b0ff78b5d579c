"""Reading events. They outlive the resource they tell of, so a story is found by account and name."""

from uuid import UUID

from django.db.models import QuerySet

from controlplane.observability.models import Event


def story_of(account_id: str, name: str, subject_id: UUID | None = None, kind: str = "endpoint") -> "QuerySet[Event]":
    """The events of the resource `subject_id`, or of the last one that had this name; in order, none when none had."""
    told = Event.objects.filter(account_id=account_id, subject_kind=kind, subject_name__iexact=name).order_by("id")
    if subject_id is None:
        last = told.last()
        subject_id = last.subject_id if last else None
    return told.filter(subject_id=subject_id)
