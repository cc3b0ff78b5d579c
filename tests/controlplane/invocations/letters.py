"""Asynchronous requests as they lie in the database, in any state, for tests of what is done about them later."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from controlplane.auth.models import Account
from controlplane.endpoints.models import Endpoint
from controlplane.invocations.models import ENDED, AsyncInvocation, AsyncPayload

ACCOUNT = settings.HEADRACE.account_id
FAILURE_KINDS = {"failed": "model_server_error", "expired": "expired", "cancelled": "cancelled"}


def endpoint(now: datetime, name: str = "e", *, account: str = ACCOUNT, phase: str = "InService") -> Endpoint:
    """An asynchronous endpoint in this phase."""
    Account.objects.get_or_create(account_id=account, defaults={"created_at": now})
    return Endpoint.objects.create(
        id=uuid4(),
        account_id=account,
        name=name,
        config_name=name,
        is_async=True,
        shows_pools=False,
        phase=phase,
        created_at=now,
        modified_at=now,
        look_again_at=now,
    )


def letter(at: Endpoint, now: datetime, state: str = "failed", **members: Any) -> AsyncInvocation:
    """A request of this endpoint, accepted now, with its payload unless `payload=None`."""
    payload = members.pop("payload", b"x")
    key = uuid4()
    row = AsyncInvocation(
        id=key,
        account_id=at.account_id,
        endpoint_id=at.id,
        endpoint_name=at.name,
        inference_id=str(uuid4()),
        state=state,
        accepted_at=now,
        expires_at=now + timedelta(seconds=3600),
        timeout_seconds=900,
        due_at=now,
        output_location=f"s3://answers/out/{key}.out",
        failure_location=f"s3://answers/failed/{key}-error.out",
        failure_kind=FAILURE_KINDS.get(state, ""),
        outcome_text="It went wrong." if state in FAILURE_KINDS else "",
        ended_at=now if state in ENDED else None,
    )
    for name, value in members.items():
        setattr(row, name, value)
    row.save(force_insert=True)
    if payload is not None:
        AsyncPayload.objects.create(invocation=row, body=payload)
    return row


def states(rows: Sequence[AsyncInvocation]) -> list[str]:
    """Their states as they are now, in order."""
    found = dict(AsyncInvocation.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "state"))
    return [found.get(row.pk, "gone") for row in rows]


def steps(row_id: UUID) -> list[str]:
    """The words of its timeline."""
    return [step[1] for step in AsyncInvocation.objects.get(pk=row_id).timeline]
