"""Changing asynchronous requests after they were accepted: put back into the queue, or cancel.

**Redrive.** Clients wait at two locations at once and believe the object that appears first, so the old failure object
must be gone before the request can run again. No network call is made here: the request becomes REDRIVING (the intent),
a worker removes the object and only then queues it (`workers.invocations.redrive`). A request that was promised no
failure object is queued at once. Its attempts begin anew, its time to live begins now, its answer goes to where it was
to go.

**Cancel.** A cancellation is an outcome like any other failure: decided here, durably, and told by a worker at the failure
location and to the error topic, so that whoever waits there stops waiting. No model is called for it from the decision
on. One that runs loses its lease: the worker notices at once (it is notified) or with its next renewal, and ends the call;
an answer that comes in between is dropped, with an event. Once an answer or a failure is being stored it is too late.

Both take rows by their own lock, so of two callers that ask for the same, one acts. Every change is told as an event of
the endpoint, with who asked for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from controlplane.core.errors import ResourceNotFound, ValidationException
from controlplane.core.words import counted
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.selectors import get_endpoint
from controlplane.endpoints.states import Phase
from controlplane.invocations.models import DEAD, AsyncInvocation, AsyncPayload, FailureKind, InvocationState
from controlplane.invocations.notices import CANCELLED_NOTICE, CHANNEL
from controlplane.invocations.search import DEAD_STATES, Filter, counts, keys
from controlplane.invocations.steps import Step, clean
from controlplane.invocations.steps_sql import appended, one_step
from controlplane.observability import events

REDRIVE_DEFAULT, REDRIVE_LIMIT = 1000, 10_000
"""Of one call for a class: what one transaction holds locked for a second or so."""

SLICE = 1000
TIME_TO_LIVE_SECONDS = (60, 21_600)
"""The bounds of a time to live, as InvokeEndpointAsync has them."""

_CLOCK_SKEW = timedelta(minutes=1)
_GONE = (Phase.DELETING, Phase.FAILED)


@dataclass(frozen=True)
class Redriven:
    """What came of redriving a class.

    `matching` dead letters were of it, `redriven` were put back (or would be), `skipped` were met that cannot be: of an
    earlier endpoint of the name, without their payload, or taken by somebody else at the same moment.
    """

    matching: int
    redriven: int
    skipped: int


def get_request(account_id: str, request_id: UUID) -> AsyncInvocation:
    """The account's request; raises ResourceNotFound."""
    return _found(AsyncInvocation.objects.filter(account_id=account_id, pk=request_id).first(), request_id)


def redrive(
    account_id: str, request_id: UUID, *, actor: str, now: datetime, time_to_live: timedelta | None = None
) -> AsyncInvocation:
    """Put one failed or expired request back; raises ResourceNotFound, or ValidationException when that cannot be."""
    with transaction.atomic():
        row = _locked(account_id, request_id)
        _check_redrivable(row)
        _put_back([row.id], actor, now, time_to_live)
        sentence = (
            f"{actor} put request {row.id} back into the queue: it had {row.state}, {row.failure_kind or 'unclassed'}."
        )
        detail = {"request": str(row.id), "actor": actor, "failureKind": row.failure_kind, "redrives": row.redrives + 1}
        events.record(_subject(row), "AsyncRequestRedriven", sentence, now=now, detail=detail)
        row.refresh_from_db()
    return row


def redrive_class(
    which: Filter, *, limit: int, actor: str, now: datetime, time_to_live: timedelta | None = None, dry_run: bool = False
) -> Redriven:
    """Put back up to `limit` dead letters of an endpoint, the oldest first; a dry run counts and changes nothing.

    Raises the API's not-found error for an endpoint that does not exist (any more).
    """
    endpoint = get_endpoint(which.account_id, settings.HEADRACE.region, which.endpoint_name)
    if endpoint.phase in _GONE:
        raise ValidationException(f"Endpoint {endpoint.name} is {endpoint.phase}: it takes no request any more.")
    which = replace(which, states=_dead_only(which.states), accepted_after=_since(endpoint, which.accepted_after))
    with transaction.atomic():
        done = _redrive_slices(which, limit, actor, now, time_to_live, dry_run=dry_run)
        if done.redriven and not dry_run:
            _tell_class(endpoint, which, done, actor, now)
    return done


def cancel(account_id: str, request_id: UUID, *, actor: str, now: datetime) -> AsyncInvocation:
    """Decide that a request is cancelled; raises ResourceNotFound, or ValidationException when it is too late.

    Repeating it changes nothing.
    """
    with transaction.atomic():
        row = _locked(account_id, request_id)
        if row.failure_kind == FailureKind.CANCELLED:
            return row
        _check_cancellable(row)
        _decide_cancelled(row, actor, now)
        was = "ran" if row.state == InvocationState.RUNNING else "waited"
        detail = {"request": str(row.id), "actor": actor, "was": row.state, "attempts": row.attempts}
        sentence = f"{actor} cancelled request {row.id}, which {was}."
        events.record(_subject(row), "AsyncRequestCancelled", sentence, now=now, detail=detail)
        row.refresh_from_db()
    return row


def _locked(account_id: str, request_id: UUID) -> AsyncInvocation:
    rows = AsyncInvocation.objects.select_for_update().filter(account_id=account_id, pk=request_id)
    return _found(rows.first(), request_id)


def _found(row: AsyncInvocation | None, request_id: UUID) -> AsyncInvocation:
    if row is None:
        raise ResourceNotFound(f"There is no asynchronous request {request_id}.")
    return row


def _check_redrivable(row: AsyncInvocation) -> None:
    if row.state not in DEAD:
        raise ValidationException(f"Request {row.id} is {row.state}: only failed and expired ones can be redriven.")
    if not Endpoint.objects.filter(pk=row.endpoint_id).exclude(phase__in=_GONE).exists():
        raise ValidationException(
            f"Request {row.id} cannot be redriven: its endpoint {row.endpoint_name} was deleted or has failed. "
            "An endpoint made again under the name never gets the earlier one's requests."
        )
    if not row.input_location and not AsyncPayload.objects.filter(pk=row.id).exists():
        raise ValidationException(f"Request {row.id} cannot be redriven: its payload is no longer kept.")


def _check_cancellable(row: AsyncInvocation) -> None:
    if row.state not in (InvocationState.QUEUED, InvocationState.RUNNING, InvocationState.REDRIVING):
        raise ValidationException(f"Request {row.id} cannot be cancelled: it is {row.state}.")
    if row.failure_kind:
        raise ValidationException(f"Request {row.id} cannot be cancelled: it has failed, which is being told.")
    if row.is_storing:
        raise ValidationException(f"Request {row.id} cannot be cancelled: its answer is being stored.")


_REDRIVABLE = """
SELECT q.id FROM invocations_asyncinvocation q
JOIN endpoints_endpoint endpoint ON endpoint.id = q.endpoint_id AND endpoint.phase <> ALL(%(gone)s)
WHERE q.id = ANY(%(ids)s) AND q.state = ANY(%(dead)s)
  AND (q.input_location <> '' OR EXISTS (SELECT FROM invocations_asyncpayload p WHERE p.invocation_id = q.id))
"""

# Its time to live is as long as it was the last time, when it began with the acceptance or with the last redrive.
_PUT_BACK = f"""
WITH chosen AS ({_REDRIVABLE} FOR UPDATE OF q SKIP LOCKED)
UPDATE invocations_asyncinvocation q
SET state = CASE WHEN failure_location = '' THEN 'queued' ELSE 'redriving' END, due_at = %(now)s, redriven_at = %(now)s,
    expires_at = %(now)s + coalesce(%(time_to_live)s, least(make_interval(secs => {TIME_TO_LIVE_SECONDS[1]}),
      expires_at - coalesce(redriven_at, accepted_at))),
    attempts = 0, redrives = redrives + 1, failure_kind = '', outcome_text = '', ended_at = NULL,
    lease_token = NULL, lease_expires_at = NULL, instance_id = NULL,
    {appended(1, one_step(Step.REDRIVEN, "attempts", "%(detail)s::text"))}
FROM chosen WHERE q.id = chosen.id
"""  # noqa: S608 - composed of this module's constants

# REDRIVING stays: a worker may be removing the old failure object, and must not remove the one that will tell this.
_CANCEL = f"""
UPDATE invocations_asyncinvocation
SET state = CASE WHEN state = 'running' THEN 'queued' ELSE state END, due_at = least(due_at, %(now)s),
    failure_kind = %(kind)s, outcome_text = %(text)s, instance_id = NULL,
    lease_token = CASE WHEN state = 'redriving' THEN lease_token END,
    lease_expires_at = CASE WHEN state = 'redriving' THEN lease_expires_at END,
    {appended(1, one_step(Step.CANCELLED, "attempts", "%(detail)s::text"))}
WHERE id = %(id)s
"""  # noqa: S608 - composed of this module's constants


def _put_back(ids: Sequence[UUID], actor: str, now: datetime, time_to_live: timedelta | None) -> int:
    """Put back those of these that can be; returns how many were."""
    step = {"at": now.isoformat(), "detail": clean(f"by {actor}")}
    with connection.cursor() as cursor:
        cursor.execute(_PUT_BACK, {**_redrivable(ids), **step, "now": now, "time_to_live": time_to_live})
        count = cursor.rowcount
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
    return int(count)


def _redrivable(ids: Sequence[UUID]) -> dict[str, object]:
    return {"ids": list(ids), "gone": [str(phase) for phase in _GONE], "dead": list(DEAD_STATES)}


def _count_redrivable(ids: Sequence[UUID]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({_REDRIVABLE}) AS redrivable", _redrivable(ids))  # noqa: S608
        return int(cursor.fetchone()[0])


def _redrive_slices(
    which: Filter, limit: int, actor: str, now: datetime, time_to_live: timedelta | None, *, dry_run: bool
) -> Redriven:
    """Walk the class until `limit` were put back or none is left: those that cannot be are passed over."""
    matching = sum(found.count for found in counts(which))
    redriven, met, after = 0, 0, None
    while redriven < limit:
        found = keys(which, min(limit - redriven, SLICE), oldest_first=True, after=after)
        if not found:
            break
        ids, after, met = [row_id for _, row_id in found], found[-1], met + len(found)
        redriven += _count_redrivable(ids) if dry_run else _put_back(ids, actor, now, time_to_live)
    return Redriven(matching, redriven, met - redriven)


def _dead_only(states: tuple[str, ...]) -> tuple[str, ...]:
    if not set(states) <= set(DEAD_STATES):
        raise ValidationException(f"Only {' and '.join(DEAD_STATES)} requests can be redriven.")
    return states or DEAD_STATES


def _since(endpoint: Endpoint, accepted_after: datetime | None) -> datetime:
    """Nothing accepted before the endpoint was made is its own; `_REDRIVABLE` decides, this only shortens the walk."""
    made = endpoint.created_at - _CLOCK_SKEW
    return made if accepted_after is None else max(made, accepted_after)


def _tell_class(endpoint: Endpoint, which: Filter, done: Redriven, actor: str, now: datetime) -> None:
    kinds = ", ".join(which.failure_kinds) or "of any kind"
    matching = counted(done.matching, "failed or expired request")
    sentence = f"{actor} put {done.redriven} of {matching} ({kinds}) back into the queue."
    detail = {"actor": actor, "redriven": done.redriven, "matching": done.matching, "kinds": list(which.failure_kinds)}
    subject = events.Subject(which.account_id, "endpoint", endpoint.id, endpoint.name)
    events.record(subject, "AsyncRequestsRedriven", sentence, now=now, detail=detail)


def _decide_cancelled(row: AsyncInvocation, actor: str, now: datetime) -> None:
    text = clean(f"The request was cancelled by {actor}.")
    step = {"at": now.isoformat(), "detail": clean(f"by {actor}")}
    with connection.cursor() as cursor:
        cursor.execute(_CANCEL, {**step, "now": now, "kind": FailureKind.CANCELLED, "text": text, "id": row.id})
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, CANCELLED_NOTICE])
    AsyncPayload.objects.filter(pk=row.id).delete()


def _subject(row: AsyncInvocation) -> events.Subject:
    return events.Subject(row.account_id, "endpoint", row.endpoint_id, row.endpoint_name)
