"""Finding asynchronous requests: filters, pages, and counts by class.

A class is what requests of one endpoint share: their state and the kind of their failure. One index holds every class as a
run of its own, in order of acceptance. So a search first steps over the classes that exist (one probe of the index each,
however many requests they hold), then takes the head of each wanted one and merges them: a page costs the same at a
thousand requests and at a million.

Keyset paging: a token holds the acceptance time and id of the last request shown, signed together with the filters that
it belongs to. A request that ends between two pages may be seen again or not at all only where the filters name a state.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.signing import BadSignature, Signer
from django.db import connection

from controlplane.core.errors import ValidationException
from controlplane.invocations.models import DEAD, AsyncInvocation

PAGE_DEFAULT, PAGE_LIMIT = 50, 500
_EARLIEST, _LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)

DEAD_STATES = tuple(str(state) for state in DEAD)

Key = tuple[datetime, UUID]
"""Where a request stands in the order of acceptance."""


@dataclass(frozen=True)
class Filter:
    """Which requests are meant; blank, empty and None mean any. After is inclusive, before exclusive."""

    account_id: str
    endpoint_name: str = ""
    states: tuple[str, ...] = ()
    failure_kinds: tuple[str, ...] = ()
    inference_id: str = ""
    accepted_after: datetime | None = None
    accepted_before: datetime | None = None


@dataclass(frozen=True)
class Page:
    """Requests of one page and the token of the next, None on the last."""

    rows: list[AsyncInvocation]
    next_token: str | None


@dataclass(frozen=True)
class ClassCount:
    """How many requests of an endpoint are in a class, and when the oldest of them was accepted."""

    endpoint_name: str
    state: str
    failure_kind: str
    count: int
    oldest_at: datetime


# `{endpoint}` is the condition on the endpoint's name, where one is given.
_CLASSES = """
WITH RECURSIVE classes AS (
  (SELECT endpoint_name, state, failure_kind FROM invocations_asyncinvocation
   WHERE account_id = %(account_id)s {endpoint} ORDER BY endpoint_name, state, failure_kind LIMIT 1)
  UNION ALL
  SELECT later.* FROM classes CROSS JOIN LATERAL (
    SELECT endpoint_name, state, failure_kind FROM invocations_asyncinvocation
    WHERE account_id = %(account_id)s {endpoint}
      AND (endpoint_name, state, failure_kind) > (classes.endpoint_name, classes.state, classes.failure_kind)
    ORDER BY endpoint_name, state, failure_kind LIMIT 1
  ) AS later
), wanted AS (
  SELECT * FROM classes
  WHERE (%(any_state)s OR state = ANY(%(states)s)) AND (%(any_kind)s OR failure_kind = ANY(%(kinds)s))
)
"""

_OF_CLASS = """account_id = %(account_id)s AND endpoint_name = wanted.endpoint_name AND state = wanted.state
    AND failure_kind = wanted.failure_kind AND accepted_at >= %(after)s AND accepted_at < %(before)s"""

# A page has no more classes than requests: those whose first ones come first. Only they are read any further, so that a
# search over all of ten thousand endpoints reads one request of each class and no whole page of every one.
_KEYS = f"""
, foremost AS (
  SELECT wanted.* FROM wanted CROSS JOIN LATERAL (
    SELECT accepted_at, id FROM invocations_asyncinvocation
    WHERE {_OF_CLASS} AND (accepted_at, id) {{step}} (%(key_at)s, %(key_id)s)
    ORDER BY accepted_at {{order}}, id {{order}} LIMIT 1
  ) AS first
  ORDER BY first.accepted_at {{order}}, first.id {{order}} LIMIT %(limit)s
)
SELECT head.accepted_at, head.id FROM foremost AS wanted CROSS JOIN LATERAL (
  SELECT accepted_at, id FROM invocations_asyncinvocation
  WHERE {_OF_CLASS} AND (accepted_at, id) {{step}} (%(key_at)s, %(key_id)s)
  ORDER BY accepted_at {{order}}, id {{order}} LIMIT %(limit)s
) AS head
ORDER BY head.accepted_at {{order}}, head.id {{order}} LIMIT %(limit)s
"""  # noqa: S608 - composed of this module's constants

_BY_INFERENCE_ID = """
SELECT accepted_at, id FROM invocations_asyncinvocation
WHERE account_id = %(account_id)s AND inference_id = %(inference_id)s {endpoint}
  AND (%(any_state)s OR state = ANY(%(states)s)) AND (%(any_kind)s OR failure_kind = ANY(%(kinds)s))
  AND accepted_at >= %(after)s AND accepted_at < %(before)s AND (accepted_at, id) {step} (%(key_at)s, %(key_id)s)
ORDER BY accepted_at {order}, id {order} LIMIT %(limit)s
"""

_COUNTS = f"""
SELECT wanted.endpoint_name, wanted.state, wanted.failure_kind, found.count, found.oldest_at
FROM wanted CROSS JOIN LATERAL (
  SELECT count(*) AS count, min(accepted_at) AS oldest_at FROM invocations_asyncinvocation WHERE {_OF_CLASS}
) AS found
WHERE found.count > 0 ORDER BY wanted.endpoint_name, found.count DESC, wanted.failure_kind, wanted.state
"""  # noqa: S608 - composed of this module's constants


def find(which: Filter, *, limit: int = PAGE_DEFAULT, oldest_first: bool = False, token: str = "") -> Page:
    """One page of the requests meant, by the time of their acceptance; raises ValidationException for a foreign token."""
    signer = _signer(which, oldest_first=oldest_first)
    after = _read_token(token, signer) if token else None
    found = keys(which, limit + 1, oldest_first=oldest_first, after=after)
    shown = found[:limit]
    rows = AsyncInvocation.objects.in_bulk([row_id for _, row_id in shown])
    # A request that retention deleted between the two statements is left out.
    in_order = [rows[row_id] for _, row_id in shown if row_id in rows]
    return Page(in_order, _token(shown[-1], signer) if len(found) > limit else None)


def keys(which: Filter, limit: int, *, oldest_first: bool, after: Key | None = None) -> list[Key]:
    """The first `limit` keys of the requests meant that come after this one in the order."""
    order, step = ("ASC", ">") if oldest_first else ("DESC", "<")
    edge = (_EARLIEST, _FIRST_ID) if oldest_first else (_LATEST, _LAST_ID)
    key_at, key_id = after or edge
    statement = _BY_INFERENCE_ID if which.inference_id else _CLASSES + _KEYS
    named = {"endpoint": _endpoint(which), "order": order, "step": step}
    params = {**_params(which), "key_at": key_at, "key_id": key_id, "limit": limit}
    return [(row[0], row[1]) for row in _fetch(statement.format(**named), params)]


def counts(which: Filter) -> list[ClassCount]:
    """How many of the requests meant are in each class, by endpoint, the largest class first."""
    statement = (_CLASSES + _COUNTS).format(endpoint=_endpoint(which))
    return [ClassCount(*row) for row in _fetch(statement, _params(which))]


def _endpoint(which: Filter) -> str:
    return "AND endpoint_name = %(endpoint_name)s" if which.endpoint_name else ""


def _params(which: Filter) -> dict[str, Any]:
    return {
        "account_id": which.account_id,
        "endpoint_name": which.endpoint_name,
        "inference_id": which.inference_id,
        "any_state": not which.states,
        "states": list(which.states),
        "any_kind": not which.failure_kinds,
        "kinds": list(which.failure_kinds),
        "after": which.accepted_after or _EARLIEST,
        "before": which.accepted_before or _LATEST,
    }


def _fetch(statement: str, params: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _signer(which: Filter, *, oldest_first: bool) -> Signer:
    return Signer(salt=json.dumps(["async-requests", asdict(which), oldest_first], default=str))


def _token(key: Key, signer: Signer) -> str:
    return str(signer.sign_object([key[0].isoformat(), str(key[1])]))


def _read_token(token: str, signer: Signer) -> Key:
    try:
        at, row_id = signer.unsign_object(token)
    except BadSignature as error:
        # The same words as at the AWS door, whose service really leaves its placeholder unfilled.
        raise ValidationException('Invalid pagination token because "{0}".') from error
    return datetime.fromisoformat(at), UUID(row_id)
