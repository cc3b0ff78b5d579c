"""Requests that ended long ago are deleted, and before them the payloads of those that failed; in batches.

    ended   --HEADRACE_ASYNC_PAYLOAD_RETENTION_DAYS--> its payload goes: it cannot be redriven any more
            --HEADRACE_ASYNC_RETENTION_DAYS----------> the request goes, and with it its timeline

Only what has ended is touched: a redriven request has no `ended_at` until it ends again. A completed or cancelled one has
no payload any more, so only dead letters are looked through for payloads. Objects in the store are the caller's: none is
deleted here. Messages that no topic took go with the requests of their time.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

BATCH = 5_000
MOST_BATCHES = 200
"""Of one sweep, an hour: a million requests, which is more than one of these machines ends in that time for long."""

# Rows are taken by their own lock and passed over while somebody else holds it, for instance to redrive them.
_PAYLOADS = """
DELETE FROM invocations_asyncpayload WHERE invocation_id = ANY(ARRAY(
  SELECT q.id FROM invocations_asyncinvocation q
  WHERE q.state IN ('failed', 'expired') AND q.ended_at < %(before)s
    AND EXISTS (SELECT FROM invocations_asyncpayload p WHERE p.invocation_id = q.id)
  ORDER BY q.ended_at LIMIT %(count)s FOR UPDATE SKIP LOCKED))
"""

_REQUESTS = """
WITH old AS (
  SELECT id FROM invocations_asyncinvocation
  WHERE ended_at < %(before)s AND state IN ('completed', 'failed', 'expired', 'cancelled')
  ORDER BY ended_at LIMIT %(count)s FOR UPDATE SKIP LOCKED
), payloads AS (
  DELETE FROM invocations_asyncpayload WHERE invocation_id IN (SELECT id FROM old)
)
DELETE FROM invocations_asyncinvocation WHERE id IN (SELECT id FROM old)
"""

_MESSAGES = """
DELETE FROM invocations_asyncnotification WHERE id = ANY(ARRAY(
  SELECT id FROM invocations_asyncnotification WHERE given_up_at < %(before)s
  ORDER BY given_up_at LIMIT %(count)s FOR UPDATE SKIP LOCKED))
"""


def sweep(now: datetime, batch: int = BATCH) -> int:
    """Delete what is beyond its retention, at most MOST_BATCHES of each kind; returns how many requests went."""
    env = settings.HEADRACE
    requests_before = now - timedelta(days=env.async_retention_days)
    payloads_before = now - timedelta(days=min(env.async_payload_retention_days, env.async_retention_days))
    deleted = _delete(_REQUESTS, requests_before, batch)
    if payloads_before > requests_before:
        _delete(_PAYLOADS, payloads_before, batch)
    _delete(_MESSAGES, requests_before, batch)
    return deleted


def _delete(statement: str, before: datetime, batch: int) -> int:
    """Run the statement until a batch is not full; each is a transaction of its own."""
    deleted = 0
    for _ in range(MOST_BATCHES):
        with connection.cursor() as cursor:
            cursor.execute(statement, {"before": before, "count": batch})
            found = cursor.rowcount
        deleted += found
        if found < batch:
            break
    return deleted
