"""Which request is meant: callers know the InferenceId that they were answered with, operators Headrace's own id."""

from uuid import UUID

from controlplane.core.errors import ResourceNotFound, ValidationException
from controlplane.invocations.models import AsyncInvocation
from controlplane.invocations.search import Filter, keys

SHOWN = 5
"""So many of the requests that share an InferenceId are named."""


def request_named(account_id: str, name: str) -> UUID:
    """The id of the account's request with this id, else with this InferenceId.

    Raises ResourceNotFound for a name that nothing has, ValidationException for an InferenceId that several share: callers
    choose it themselves, and may choose it twice.
    """
    own = _uuid(name)
    if own and AsyncInvocation.objects.filter(account_id=account_id, pk=own).exists():
        return own
    found = keys(Filter(account_id, inference_id=name), SHOWN + 1, oldest_first=False) if name else []
    if not found:
        raise ResourceNotFound(f"There is no asynchronous request with the id or InferenceId {name}.")
    if len(found) > 1:
        ids = ", ".join(str(row_id) for _, row_id in found[:SHOWN])
        more = ", and more" if len(found) > SHOWN else ""
        raise ValidationException(f"Several requests have the InferenceId {name}; name one by its own id: {ids}{more}.")
    return found[0][1]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
