"""Reading asynchronous invocations. Selectors read and never lock."""

from collections.abc import Collection
from uuid import UUID

from django.db.models import Count

from controlplane.invocations.models import AsyncInvocation, InvocationState


def running_by_instance(instance_ids: Collection[UUID]) -> dict[UUID, int]:
    """How many invocations run on each of these instances; those with none are left out."""
    if not instance_ids:
        return {}
    rows = AsyncInvocation.objects.filter(state=InvocationState.RUNNING, instance_id__in=instance_ids)
    return dict(rows.values_list("instance_id").annotate(count=Count("id")))
